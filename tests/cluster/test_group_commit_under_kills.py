"""Micro-batches like those of the Spark sink, while the broker that coordinates them is killed.
Each micro-batch is one group commit of several transactions."""

from __future__ import annotations

import asyncio
from enum import Enum

from confluent_kafka.admin import AdminClient

from oncelog_client import (
    Admin,
    CommitOutcomeUnknown,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
)
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from tests.cluster.reading import in_sync, values
from tests.harness.client_reading import eventually
from tests.harness.cluster import QUICK, Cluster
from tests.harness.waiting import wait_until

SINK = "sink"
PARTITIONS = 3
PLACE = TopicPartition("sink-state", 0)
TIMEOUT_MS = 60_000
SHARDS = int(QUICK["transaction.state.log.num.partitions"])
BATCHES = 6


class Kill(Enum):
    WHILE_JOINING = "the broker of an id dies while the ids join the group"
    BEFORE_THE_COMMIT = "the broker of the group dies while the transactions are open"
    IN_THE_COMMIT = "the broker of the group dies during the commit"


# By number of the batch.
KILLS = {
    1: Kill.BEFORE_THE_COMMIT,
    2: Kill.WHILE_JOINING,
    4: Kill.IN_THE_COMMIT,
    5: Kill.WHILE_JOINING,
}


def name(batch: int, partition: int) -> str:
    """Return the transactional id of a task. The ids of a batch have different coordinators."""
    return f"{SINK}/{batch}/{partition}"


async def write(cluster: Cluster, admin: Admin, batch: int, partition: int) -> TransactionMember:
    """Write a record as a task of an executor does. The driver decides the transaction."""
    group = TransactionGroup(SINK, 1)
    transactional_id = name(batch, partition)
    made = await admin.init_producer(transactional_id, group, transaction_timeout_ms=TIMEOUT_MS)
    async with Producer(cluster.address, transactional_id=transactional_id) as producer:
        await producer.adopt_transactions(made, group)
        await producer.begin_transaction()
        await producer.send("out", b"%d/%d" % (batch, partition), partition=partition)
        handed = await producer.hand_over_transaction()
    assert handed is not None
    return handed


async def commit(
    admin: Admin, parent: TransactionMember, members: list[TransactionMember], batch: int
) -> TransactionMember:
    offsets = {PLACE: OffsetAndMetadata(batch + 1, f"batch {batch}")}
    while True:
        try:
            return await admin.commit_group(SINK, parent, members, offsets)
        except CommitOutcomeUnknown as unknown:
            if unknown.fatal:
                raise
            offsets = {}


def coordinator(metadata: AdminClient, key: str) -> int:
    """Return the id of the broker that coordinates a transactional id or a group."""
    topic = metadata.list_topics(TRANSACTION_STATE, timeout=30).topics[TRANSACTION_STATE]
    return int(topic.partitions[partition_for(key, SHARDS)].leader)


def wait_for_replicas(metadata: AdminClient) -> None:
    def are_whole() -> bool:
        return in_sync(metadata, "out", PARTITIONS) and in_sync(metadata, TRANSACTION_STATE, SHARDS)

    wait_until(are_whole, "all replicas are in sync", 60)


async def wait_for_commits(admin: Admin) -> None:
    """Wait until the transactions have their markers: a commit gets its response before that."""
    names = [name(batch, number) for batch in range(BATCHES) for number in range(PARTITIONS)]

    async def are_complete() -> bool:
        described = (await admin.describe_transactions(names)).values()
        states = {found.state for found in described}
        assert states <= {"PrepareCommit", "CompleteCommit"}, states
        return states == {"CompleteCommit"}

    await eventually(are_complete)


async def test_b27_each_group_commit_is_whole_over_kills_of_its_coordinators(
    cluster: Cluster,
) -> None:
    metadata = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    async with Admin(cluster.address, default_api_timeout_ms=TIMEOUT_MS) as admin:
        await admin.create_topics([NewTopic("out", PARTITIONS, 3), NewTopic(PLACE.topic, 1, 3)])
        parent = await admin.init_producer(
            SINK, TransactionGroup(SINK, 1), transaction_timeout_ms=TIMEOUT_MS
        )
        for batch in range(BATCHES):
            kill = KILLS.get(batch)
            key = name(batch, 1) if kill is Kill.WHILE_JOINING else SINK
            victim = cluster.brokers[await asyncio.to_thread(coordinator, metadata, key)]
            async with asyncio.TaskGroup() as joining:
                if kill is Kill.WHILE_JOINING:
                    joining.create_task(asyncio.to_thread(victim.kill))
                written = [
                    joining.create_task(write(cluster, admin, batch, partition))
                    for partition in range(PARTITIONS)
                ]
            members = [task.result() for task in written]
            if kill is Kill.BEFORE_THE_COMMIT:
                await asyncio.to_thread(victim.kill)
            async with asyncio.TaskGroup() as committing:
                if kill is Kill.IN_THE_COMMIT:
                    committing.create_task(asyncio.to_thread(victim.kill))
                decided = committing.create_task(commit(admin, parent, members, batch))
            parent = decided.result()
            if kill is not None:
                await asyncio.to_thread(victim.start)
                await asyncio.to_thread(wait_for_replicas, metadata)
        offsets = await admin.list_group_offsets(SINK, [PLACE], require_stable=True)
        assert offsets[PLACE].offset == BATCHES
        await wait_for_commits(admin)
    expected = [f"{batch}/{number}" for batch in range(BATCHES) for number in range(PARTITIONS)]
    found = await asyncio.to_thread(values, cluster.address, "out", PARTITIONS)
    assert found == sorted(expected)
