"""A cluster of real broker processes on an etcd."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.harness.broker import Oncelog, OncelogByAddress
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

QUICK: Final = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class Cluster:
    """Brokers 1 to `size`, as a context manager. They start at the same moment. `settings` are
    those of each broker."""

    # The file with the login of our clients, for other processes. None: no login.
    login: Path | None = None

    def __init__(
        self,
        directory: Path,
        etcd: Etcd,
        size: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.brokers: dict[int, Oncelog] = {
            broker_id: self.new_broker(
                directory / f"broker-{broker_id}",
                {
                    **QUICK,
                    "node.id": str(broker_id),
                    "oncelog.etcd.endpoints": ",".join(etcd.urls),
                    **(settings or {}),
                },
            )
            for broker_id in range(1, size + 1)
        }

    def new_broker(self, directory: Path, settings: Mapping[str, str]) -> Oncelog:
        """Return a broker that is not started yet."""
        return OncelogByAddress(directory, settings)

    def connect(self, broker: Oncelog) -> Wire:
        """Return a connection for raw requests to a broker."""
        return Wire(broker.address)

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Return the settings of librdkafka's clients."""
        return {"bootstrap.servers": self.address}

    @property
    def address(self) -> str:
        """Return the bootstrap servers: all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Start all brokers. Return when all serve."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for started in [pool.submit(broker.start) for broker in self.brokers.values()]:
                started.result()

    def stop(self) -> None:
        """Stop the brokers that run, one after the other."""
        for broker in self.brokers.values():
            if broker.is_running:
                broker.stop()

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition, -1 if none does."""
        running = next(broker for broker in self.brokers.values() if broker.is_running)
        with self.connect(running) as wire:
            response = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        partitions = response.topics[0].partitions
        leaders = [row.leader_id for row in partitions if row.partition_index == partition]
        return leaders[0] if leaders else -1

    def fail_over(self, topic: str, partition: int) -> None:
        """Kill the broker that leads a partition. Start it again when another broker leads the
        partition."""
        lost = self.leader(topic, partition)
        self.brokers[lost].kill()
        wait_until(
            lambda: self.leader(topic, partition) not in (lost, -1),
            f"another broker than {lost} leads {topic}-{partition}",
        )
        self.brokers[lost].start()

    def said(self) -> str:
        """Return the end of the output of all brokers."""
        return "\n".join(f"--- {id_}\n{broker.said()}" for id_, broker in self.brokers.items())

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
