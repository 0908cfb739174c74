"""Brokers that end, come back and lose the store, in any order: at the end one of them is the
controller, and every partition has a leader."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from tests.server.metadata.brokers import SESSION_MS, Brokers, until

IDS = (1, 2, 3, 4)
STEPS = 120
STEP_KINDS = (
    *("create", "create", "create", "delete", "end lease", "kill", "lose store"),
    *("pass", "pass", "start", "start", "start", "stop"),
)


class Faults:
    """Draws steps. The brokers keep their disks."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.brokers = Brokers()
        self.live: dict[int, ClusterMetadata] = {}
        self.topics = 0
        self.requests: set[asyncio.Task[object]] = set()

    async def step(self) -> None:
        kind = self.random.choice(STEP_KINDS)
        broker_id = self.random.choice(IDS)
        metadata = self.live.get(broker_id)
        if kind == "start" and metadata is None:
            self.live[broker_id] = await self.brokers.start(broker_id)
        elif kind == "pass":
            for _ in range(self.random.randrange(50)):
                await asyncio.sleep(0)
        elif kind == "lose store":
            self.brokers.store.is_cut_off = True
            self.brokers.clock.ms += self.random.choice((0, SESSION_MS))
            await asyncio.sleep(0.002)
            self.brokers.store.end_leases()
            self.brokers.store.is_cut_off = False
        elif metadata is not None:
            await self.of_broker(kind, metadata)

    async def of_broker(self, kind: str, metadata: ClusterMetadata) -> None:
        if kind == "create":
            self.topics += 1
            replicas = min(len(metadata.image.registered), 3)
            new = NewTopic(f"t{self.topics}", self.random.choice((1, 5, 300)), replicas)
            self.request(metadata.create_topics([new]))
        elif kind == "delete" and metadata.image.topics:
            name = self.random.choice(sorted(metadata.image.topics))
            self.request(metadata.delete_topics([name]))
        elif kind == "end lease":
            await self.brokers.store.revoke_lease(metadata.membership.lease_id)
        elif kind in ("kill", "stop"):
            self.live = {key: other for key, other in self.live.items() if other is not metadata}
            if kind == "kill":
                self.brokers.kill(metadata)
                await asyncio.sleep(0)
            else:
                self.brokers.all.remove(metadata)
                await metadata.stop()

    def request(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        task: asyncio.Task[object] = asyncio.create_task(work)
        self.requests.add(task)
        task.add_done_callback(self.requests.discard)

    async def heal(self) -> None:
        """Start every broker, and wait until nothing is left to decide."""
        for broker_id in IDS:
            if broker_id not in self.live:
                self.live[broker_id] = await self.brokers.start(broker_id)
        await until(lambda: self.is_settled())

    def is_settled(self) -> bool:
        images = [metadata.image for metadata in self.live.values()]
        image = images[0]
        return (
            all(other.revision == image.revision for other in images)
            and set(image.brokers) == set(IDS)
            and image.controller_id in IDS
            and not image.creating
            and not image.orphans()
            and elect_leaders(image, ElectionRules()) == []
            and all(
                partition.leader != NO_LEADER
                for topic in image.topics.values()
                for partition in topic.partitions
            )
        )


@pytest.mark.parametrize("seed", range(12))
async def test_after_faults_every_partition_has_a_leader(seed: int) -> None:
    faults = Faults(seed)
    await faults.heal()
    for _ in range(STEPS):
        await faults.step()
    await faults.heal()
    image = faults.live[1].image
    assert not [topic.name for topic in image.topics.values() if topic.missing]
    for task in list(faults.requests):
        task.cancel()
    await faults.brokers.stop()
