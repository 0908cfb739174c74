"""Several real brokers in one process, on real disks and sockets, with one metadata store. A test
kills brokers. The controller elects leaders, or a test does by writing records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from oncelog_protocol.types import uuid_to_string
from oncelog_server.broker import Broker
from oncelog_server.clock import boottime_ms
from oncelog_server.cluster import records
from oncelog_server.cluster.image import PartitionImage
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import MetadataStore, Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.environment import OsEnvironment
from oncelog_server.partition.partition import Partition
from oncelog_server.settings.model import Settings
from tests.server.metadata.memory_store import MemoryStore

DEADLINE_S = 60
TOPIC = "orders"


class Surroundings(OsEnvironment):
    """The environment of one broker. The store belongs to all brokers."""

    def __init__(self, path: Path, store: MemoryStore) -> None:
        super().__init__(str(path))
        self._store = store

    async def open_store(self, settings: Settings) -> MetadataStore:
        return self._store


class Cluster:
    """Brokers by id. `settings` are those of every broker."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.settings = {
            "replica_fetch_backoff_ms": 50,
            "replica_fetch_wait_max_ms": 200,
            # The metadata is not in the data directories.
            "oncelog_etcd_endpoints": ("http://unused:2379",),
            # An exit monitor would call this etcd. A broker that a test kills has no process of its
            # own.
            "oncelog_exit_monitor_enable": False,
            # No registration ends because this process, with all its brokers, was paused.
            "broker_session_timeout_ms": 60_000,
            **settings,
        }
        self.store = MemoryStore(now_ms=boottime_ms)
        self.brokers: dict[int, Broker] = {}

    async def start(self, *ids: int) -> None:
        for broker_id in ids:
            await self.start_one(broker_id)

    async def start_one(self, broker_id: int) -> Broker:
        path = self.path / str(broker_id)
        settings = Settings(
            node_id=broker_id,
            log_dirs=(str(path),),
            listeners=("PLAINTEXT://127.0.0.1:0",),
            **self.settings,
        )
        broker = Broker(settings, Surroundings(path, self.store))
        await broker.start()
        self.brokers[broker_id] = broker
        return broker

    async def create(self, *replicas: tuple[int, ...], **settings: str) -> None:
        """Create the topic with these replicas of its partitions."""
        # The records of some tests are old.
        kept = {"retention.ms": "-1", **settings}
        new = NewTopic(TOPIC, assignments=tuple(enumerate(replicas)), settings=kept)
        (created,) = await next(iter(self.brokers.values())).metadata.create_topics([new])
        assert not isinstance(created, Exception), created
        await self.until(lambda: all(len(found) for found in self._hosted(replicas)))

    def _hosted(self, replicas: tuple[tuple[int, ...], ...]) -> list[list[Partition]]:
        return [
            [found for found in broker.partitions if found.leader_id >= 0]
            for id, broker in self.brokers.items()
            if any(id in assigned for assigned in replicas)
        ]

    async def kill(self, broker_id: int) -> None:
        """End a broker as a killed process does: nothing is flushed, written or answered."""
        broker = self.brokers.pop(broker_id)
        lease_id = broker.metadata.membership.lease_id
        broker._listener.unbind()
        await broker._listener.stop(0)
        broker._background_tasks.stop()
        broker._replica_manager.stop()
        broker._late_replication.stop()
        broker._late_imports.stop()
        await broker._late_cleaner.stop()
        broker._tasks.stop()
        broker._other_brokers.close()
        keeping = broker.metadata.membership._keeping
        assert keeping is not None
        keeping.cancel()
        await broker.metadata._controller.stop()
        await broker.metadata._follower.stop()
        broker._slices.stop()
        broker._environment.close()
        broker.directory.release()
        await self.store.revoke_lease(lease_id)

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()

    @property
    def addresses(self) -> str:
        return ",".join(
            f"{host}:{port}"
            for broker in self.brokers.values()
            for _, host, port in broker.addresses
        )

    # --- partitions

    def image(self, index: int = 0) -> PartitionImage:
        found = next(iter(self.brokers.values())).metadata.image.partition(TOPIC, index)
        assert found is not None
        return found

    def replica(self, broker_id: int, index: int = 0) -> Partition:
        return self.brokers[broker_id].partitions.require(TOPIC, index)

    def write(self, index: int, **changes: Any) -> None:
        """Change a partition's record, as a controller does."""
        image = self.image(index)
        key = records.partition_key(uuid_to_string(image.topic_id), index)
        record = records.decode(PartitionRecord, self.store.entries[key].value)
        if "isr" in changes:
            brokers = next(iter(self.brokers.values())).metadata.image.brokers
            changes["isr_epochs"] = tuple(brokers[id].epoch for id in changes["isr"])
        changed = msgspec.structs.replace(record, **changes)
        self.store.apply([Put(key, records.encode(changed))])

    async def elect(self, leader: int, *, index: int = 0) -> None:
        """Make a member of the ISR the leader."""
        await self.until(lambda: leader in self.image(index).isr)
        self.write(index, leader=leader, leader_epoch=self.image(index).leader_epoch + 1)
        await self.until(lambda: self.replica(leader, index).is_leader)

    async def elected(self, index: int = 0) -> int:
        """Wait until the leader in the metadata leads, and return it."""

        def leads() -> bool:
            leader = self.image(index).leader
            return leader in self.brokers and self.replica(leader, index).is_leader

        await self.until(leads)
        return self.image(index).leader

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - waits for turns of the loop
                await asyncio.sleep(0.005)

    async def replicated(self, leader: int, *followers: int, index: int = 0) -> None:
        """Return when the followers have all records of the leader, and know that they are
        committed."""
        led = self.replica(leader, index)

        def are_equal() -> bool:
            return all(
                (copy.log_end_offset, copy.high_watermark) == (led.log_end_offset,) * 2
                for copy in (self.replica(id, index) for id in followers)
            )

        await self.until(are_equal)

    def log_of(self, broker_id: int, index: int = 0) -> bytes:
        """Return all bytes of a replica's log."""
        folder = self.path / str(broker_id) / f"{TOPIC}-{index}"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@asynccontextmanager
async def cluster(path: Path, *ids: int, **settings: Any) -> AsyncIterator[Cluster]:
    made = Cluster(path, **settings)
    await made.start(*ids)
    try:
        yield made
    finally:
        await made.stop()


def cut_off(found: Cluster, broker_id: int) -> None:
    """Stop the fetches of a broker."""
    replication = found.brokers[broker_id]._late_replication._replication
    assert replication is not None
    replication.fetchers.stop()
