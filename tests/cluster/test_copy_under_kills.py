"""A transactional copy loop while the brokers of a cluster are killed or stopped, one after the
other: no record is lost, none is doubled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.reading import in_sync
from tests.copiers.running import Copiers, Feed, audit, progress
from tests.copiers.work import PARTITIONS, Work
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

# Each broker once, and the first again.
BROKERS = (1, 2, 3, 1)
# The coordinators of the group and of the transactional ids are on all brokers.
COPIERS = 2
RECORDS = 200


@pytest.fixture
async def feed(cluster: Cluster) -> AsyncIterator[Feed]:
    feed = Feed(Work(cluster.address, "copies", 0), replicas=3)
    await feed.create()
    feed.feeding = asyncio.create_task(feed.run())
    yield feed
    await feed.stop()


@pytest.mark.parametrize(
    ("kind", "how"), [("consumer", "kill"), ("consumer", "stop"), ("group", "kill")]
)
async def test_a_copy_loop_loses_and_doubles_nothing_over_the_loss_of_brokers(
    cluster: Cluster, feed: Feed, kind: str, how: str
) -> None:
    """`kind` is that of the copiers: in group transactions, one broker coordinates the group's
    offsets, another one its transactions, and others the transactional ids. `how` says if the
    broker dies, or ends cleanly and leaves the cluster."""
    copiers = Copiers(cluster.address, "copies", timeout_ms=30_000)
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    try:
        for number in range(COPIERS):
            copiers.start(number, kind)
        await progress(feed.work, copiers, RECORDS)
        for broker_id in BROKERS:
            end = (
                cluster.brokers[broker_id].kill
                if how == "kill"
                else cluster.brokers[broker_id].stop
            )
            await asyncio.to_thread(end)
            await progress(feed.work, copiers, RECORDS)
            await asyncio.to_thread(cluster.brokers[broker_id].start)
            await asyncio.to_thread(wait_for_replicas, admin, feed.work)
        await audit(feed, copiers)
    finally:
        copiers.close()


def wait_for_replicas(admin: AdminClient, work: Work) -> None:
    def are_whole() -> bool:
        return all(in_sync(admin, topic, PARTITIONS) for topic in (work.input, work.output))

    wait_until(are_whole, "all replicas are in sync", 60)
