"""Partitions move between real brokers, under producers, transactions and group coordinators."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_client import Admin, TopicPartition
from tests.cluster.reading import CALL_S
from tests.copiers.running import Copiers, Feed, audit, progress
from tests.copiers.work import PARTITIONS, Work
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

# The brokers of all partitions, one pair after the other.
PAIRS = ((1, 2), (2, 3), (3, 1))
# The coordinators of the group and of the transactional ids move, too.
INTERNAL = ("__consumer_offsets", "__transaction_state")
INTERNAL_PARTITIONS = 3
COPIERS = 2
RECORDS = 150


async def test_b19_partitions_and_coordinators_move_under_transactions(cluster: Cluster) -> None:
    """Nothing is lost or duplicated, and a broker deletes the folders of the partitions that it no
    longer has."""
    feed = Feed(Work(cluster.address, "copies", 0), replicas=2)
    await feed.create()
    feed.feeding = asyncio.create_task(feed.run())
    copiers = Copiers(cluster.address, "copies", timeout_ms=30_000)
    try:
        for number in range(COPIERS):
            copiers.start(number, "consumer")
        await progress(feed.work, copiers, RECORDS)
        async with Admin(cluster.address) as admin:
            for pair in PAIRS:
                await move(admin, feed.work, pair)
                await progress(feed.work, copiers, RECORDS)
                await asyncio.to_thread(wait_for_folders, cluster, pair)
            moving = await admin.list_partition_reassignments()
            assert moving == {}
        await audit(feed, copiers)
    finally:
        await feed.stop()
        copiers.close()


async def move(admin: Admin, work: Work, pair: tuple[int, int]) -> None:
    """Move all partitions to these brokers. Return when they have moved."""
    names = [(topic, PARTITIONS) for topic in (work.input, work.output)]
    names += [(topic, INTERNAL_PARTITIONS) for topic in INTERNAL]
    first, second = pair
    await admin.alter_partition_reassignments(
        {
            TopicPartition(topic, number): (first, second) if number % 2 else (second, first)
            for topic, count in names
            for number in range(count)
        }
    )
    async with asyncio.timeout(CALL_S):
        while await admin.list_partition_reassignments():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def wait_for_folders(cluster: Cluster, pair: tuple[int, int]) -> None:
    """Wait until only these brokers have folders of partitions."""

    def are_gone() -> bool:
        return all(
            bool(folders(broker.data)) == (broker_id in pair)
            for broker_id, broker in cluster.brokers.items()
        )

    wait_until(are_gone, f"only {pair} have folders", CALL_S)


def folders(data: Path) -> list[str]:
    return [entry.name for entry in data.iterdir() if entry.is_dir()]
