"""A broker that cannot serve a replica says so in the metadata, and says so again after each new
registration and each failure of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from oncelog_server import replica_failures
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.partition.registry import Partitions
from oncelog_server.replica_failures import ReplicaFailures
from oncelog_server.request_tasks import RequestTasks
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.metadata.brokers import Brokers, until

NAMES = [TopicPartition("t", 0), TopicPartition("t", 1)]


class World:
    """Broker 1 of two, with a topic of two partitions."""

    def __init__(self, brokers: Brokers, metadata: ClusterMetadata) -> None:
        self.brokers = brokers
        self.metadata = metadata
        self.partitions = Partitions()
        self.tasks = RequestTasks()
        self.failures = ReplicaFailures(
            Settings(node_id=1),
            metadata,
            self.partitions,
            self.tasks,
            LoopTimers(asyncio.get_running_loop()),
        )

    @property
    def failed(self) -> set[int]:
        return {partition for broker, _, partition in self.metadata.image.failed if broker == 1}

    def leaders(self) -> list[int]:
        return [partition.leader for partition in self.metadata.image.topics["t"].partitions]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    brokers = Brokers()
    try:
        metadata = await brokers.start(1)
        await brokers.start(2)
        await until(lambda: len(metadata.image.brokers) == 2)
        assigned = tuple((index, (1, 2)) for index in range(2))
        (created,) = await metadata.create_topics([NewTopic("t", assignments=assigned)])
        assert not isinstance(created, Exception), created
        found = World(brokers, metadata)
        yield found
        found.failures.stop()
        found.tasks.stop()
    finally:
        await brokers.stop()


async def test_other_brokers_lead_the_partitions_that_go_offline() -> None:
    async with world() as found:
        for name in NAMES:
            found.partitions.add_offline(name, "damaged")
        await until(lambda: found.leaders() == [2, 2])
        assert found.failed == {0, 1}
        found.partitions.take_online(NAMES[0])
        await until(lambda: found.failed == {1})


async def test_failures_of_one_turn_are_written_together() -> None:
    async with world() as found:
        sizes: list[int] = []

        def count(old: ClusterImage, new: ClusterImage, _: object) -> None:
            if old.failed is not new.failed:
                sizes.append(len(new.failed))

        found.metadata.subscribe(count)
        for name in NAMES:
            found.partitions.add_offline(name, "damaged")
        await until(lambda: found.failed == {0, 1})
        assert sizes == [2]


async def test_the_list_is_written_when_the_store_responds_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_failures, "RETRY_MS", 5)
    async with world() as found:
        found.brokers.store.is_cut_off = True
        with structlog.testing.capture_logs() as logged:
            found.partitions.add_offline(NAMES[0], "damaged")
            for _ in range(3):
                await until(lambda: found.failures._retry is not None)
                await until(lambda: found.failures._retry is None)
        assert [row["log_level"] for row in logged if "asked" in row["event"]] == ["warning"]
        found.brokers.store.is_cut_off = False
        await until(lambda: found.failed == {0})


async def test_the_list_is_written_again_after_a_new_registration() -> None:
    async with world() as found:
        found.partitions.add_offline(NAMES[0], "damaged")
        await until(lambda: found.failed == {0})
        membership = found.metadata.membership
        epoch = membership.epoch_in(found.metadata.image)
        await found.brokers.store.revoke_lease(membership.lease_id)
        await until(lambda: membership.epoch_in(found.metadata.image) not in (0, epoch))
        await until(lambda: found.failed == {0})


async def test_a_deleted_topic_leaves_the_list() -> None:
    async with world() as found:
        found.partitions.add_offline(NAMES[0], "damaged")
        await until(lambda: found.failed == {0})
        await found.metadata.delete_topics(["t"])
        await until(lambda: found.failed == set())
