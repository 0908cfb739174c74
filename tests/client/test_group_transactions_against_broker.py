"""Transactions of a consumer group, and transactions that are committed together, on a running
oncelog, and on three (feature `oncelog.group.transactions`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog.testing.broker import QUICK
from oncelog_client import (
    AbortableError,
    Admin,
    Consumer,
    FencedInGroupError,
    GroupCommitError,
    IllegalStateError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
    UnsupportedVersionError,
)
from oncelog_client.transaction.session import TransactionSession
from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from tests.harness.broker import Oncelog
from tests.harness.client_reading import poll_until, read_values
from tests.harness.cluster import Cluster
from tests.harness.kafka.kafka import Kafka

IN0, IN1 = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.fixture(scope="module", params=["running_oncelog", "running_cluster"])
def oncelog(request: pytest.FixtureRequest) -> str:
    """Return the address of one broker, and of three."""
    brokers: Oncelog | Cluster = request.getfixturevalue(request.param)
    return brokers.address


@pytest_asyncio.fixture
async def admin(oncelog: str) -> AsyncIterator[Admin]:
    async with Admin(oncelog) as client:
        yield client


async def member_of(
    oncelog: str, admin: Admin, group: TransactionGroup, topic: str, number: int
) -> TransactionMember:
    """Return a member with a record in its open transaction. The process of an executor adopts the
    producer and writes. Another process decides the transaction."""
    transactional_id = f"{group.group_id}/{group.generation_id}/{number}"
    made = await admin.init_producer(transactional_id, group)
    async with Producer(oncelog, transactional_id=transactional_id) as producer:
        await producer.adopt_transactions(made, group)
        await producer.begin_transaction()
        await producer.send(topic, b"%d" % number)
        handed = await producer.hand_over_transaction()
    assert handed == made
    return handed


async def test_one_commit_of_a_group_makes_the_transactions_of_all_members_visible(
    oncelog: str, admin: Admin, topic: str, name: str
) -> None:
    group = TransactionGroup(name, 1)
    await admin.create_topics([NewTopic(f"{name}-sink", 1)])
    sink = TopicPartition(f"{name}-sink", 0)
    parent = await admin.init_producer(name, group)
    members = [await member_of(oncelog, admin, group, topic, number) for number in range(8)]
    assert await read_values(oncelog, topic, committed=True) == []
    await admin.commit_group(name, parent, members, {sink: OffsetAndMetadata(1, "batch 0")})
    values = await read_values(oncelog, topic, committed=True)
    assert sorted(value or b"" for value in values) == [b"%d" % number for number in range(8)]
    offsets = await admin.list_group_offsets(name, require_stable=True)
    assert offsets[sink].offset == 1
    # A repeated call without the offsets gets the same response.
    await admin.commit_group(name, parent, members)
    with pytest.raises(IllegalStateError):
        await admin.commit_group(name, parent, members[1:])
    # The same parent can be used for the next commit, which has another epoch.
    members = [await member_of(oncelog, admin, group, topic, number) for number in range(8, 10)]
    newest = await admin.commit_group(name, parent, members, {sink: OffsetAndMetadata(2)})
    assert newest.producer_epoch == parent.producer_epoch + 2
    assert len(await read_values(oncelog, topic, committed=True)) == 10


async def test_a_delayed_offset_commit_of_an_earlier_group_commit_is_refused(
    oncelog: str, admin: Admin, topic: str, name: str
) -> None:
    """A request that the network has held back arrives during the next group commit. Without
    another epoch, it would replace the offset of this commit (KIP-890 part 2)."""
    group = TransactionGroup(name, 1)
    await admin.create_topics([NewTopic(f"{name}-sink", 1)])
    sink = TopicPartition(f"{name}-sink", 0)
    parent = await admin.init_producer(name, group)
    await admin.commit_group(name, parent, [], {sink: OffsetAndMetadata(1)})
    await admin.stage_group_offsets(name, parent, {sink: OffsetAndMetadata(2)})
    async with Admin(oncelog) as late:
        with pytest.raises(FencedInGroupError):
            await late.stage_group_offsets(name, parent, {sink: OffsetAndMetadata(1)})
    await admin.commit_group(name, parent, [])
    offsets = await admin.list_group_offsets(name, require_stable=True)
    assert offsets[sink].offset == 2


async def test_a_group_commit_with_a_fenced_member_commits_no_member(
    oncelog: str, admin: Admin, topic: str, name: str
) -> None:
    group = TransactionGroup(name, 1)
    await admin.create_topics([NewTopic(f"{name}-sink", 1)])
    sink = TopicPartition(f"{name}-sink", 0)
    parent = await admin.init_producer(name, group)
    members = [await member_of(oncelog, admin, group, topic, number) for number in range(3)]
    await admin.init_producer(members[1].transactional_id, group)
    with pytest.raises(GroupCommitError) as refused:
        await admin.commit_group(name, parent, members, {sink: OffsetAndMetadata(1)})
    assert (refused.value.member, refused.value.code) == (
        members[1].transactional_id,
        ErrorCode.PRODUCER_FENCED,
    )
    assert await read_values(oncelog, topic, committed=True) == []
    assert not await admin.list_group_offsets(name)


async def test_a_parent_that_was_not_initialized_with_the_group_is_refused(
    oncelog: str, admin: Admin, topic: str, name: str
) -> None:
    """If it were accepted, no newer generation would fence it, and its late commits in the group
    would succeed."""
    await admin.create_topics([NewTopic(f"{name}-sink", 1)])
    offsets = {TopicPartition(f"{name}-sink", 0): OffsetAndMetadata(1)}
    member = await member_of(oncelog, admin, TransactionGroup(name, 1), topic, 0)
    described = await admin.describe_topics([TRANSACTION_STATE])
    count = len(described[TRANSACTION_STATE].partitions)
    # This transactional id without a group happens to have the same shard as the group.
    beside = next(
        found
        for found in (f"{name}-{number}" for number in range(99 * count))
        if partition_for(found, count) == partition_for(name, count)
    )
    for parent in (
        await admin.init_producer(beside),
        await admin.init_producer(f"{name}-alone"),
        await admin.init_producer(f"{name}-elsewhere", TransactionGroup(f"{name}-other", 1)),
    ):
        said = f"{parent.transactional_id} was not initialized with group {name},"
        for call in (
            admin.commit_group(name, parent, [member], offsets),
            admin.commit_group(name, parent, [member]),
            admin.stage_group_offsets(name, parent, offsets),
        ):
            with pytest.raises(GroupCommitError, match=said) as refused:
                await call
            assert refused.value.member == parent.transactional_id
    assert await read_values(oncelog, topic, committed=True) == []


async def test_a_member_of_an_older_generation_is_fenced_until_it_joins_the_newer_one(
    oncelog: str, admin: Admin, topic: str, name: str
) -> None:
    async with (
        Producer(oncelog, transactional_id=f"{name}-a") as older,
        Producer(oncelog, transactional_id=f"{name}-b") as newer,
    ):
        await older.init_transactions([IN0, IN1], name, 1)
        await older.begin_transaction()
        await older.send(topic, b"older")
        await older.flush()
        await newer.init_transactions([IN1], name, 2)
        with pytest.raises(FencedInGroupError) as refused:
            await older.commit_transaction()
        assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
        with pytest.raises(FencedInGroupError):
            await older.begin_transaction()
        with pytest.raises(FencedInGroupError):
            await older.init_transactions([IN0], name, 1)
        # The error is not fatal: the older producer continues in the new generation.
        await older.init_transactions([IN0], name, 2)
        for producer in (older, newer):
            await producer.begin_transaction()
            await producer.send(topic, b"continues")
            await producer.commit_transaction()
    assert await read_values(oncelog, topic, committed=True) == [b"continues"] * 2


async def begun(
    producer: Producer, topic: str, group: str, offset: int, *inputs: TopicPartition
) -> None:
    """Begin a transaction with a record and, for each input partition, an offset."""
    await producer.begin_transaction()
    await producer.send(topic, b"%d" % offset)
    await producer.flush()
    offsets = {input: OffsetAndMetadata(offset) for input in inputs}
    await producer.send_offsets_to_transaction(offsets, group)


@pytest_asyncio.fixture
async def inputs(admin: Admin, name: str) -> list[TopicPartition]:
    await admin.create_topics([NewTopic(f"{name}-in", 2)])
    return [TopicPartition(f"{name}-in", number) for number in range(2)]


@pytest.mark.parametrize("in_group", [False, True])
async def test_the_older_of_two_producers_that_commit_offsets_of_one_partition_is_refused(
    oncelog: str, topic: str, name: str, inputs: list[TopicPartition], in_group: bool
) -> None:
    async with (
        Producer(oncelog, transactional_id=f"{name}-older") as older,
        Producer(oncelog, transactional_id=f"{name}-newer") as newer,
        Admin(oncelog) as admin,
    ):
        if in_group:
            await older.init_transactions(inputs, name, 1)
        else:
            await older.init_transactions()
        await newer.init_transactions()
        await begun(older, topic, name, 5, *inputs)
        await begun(newer, topic, name, 7, inputs[1])
        with pytest.raises(AbortableError) as refused:
            await older.commit_transaction()
        if in_group:
            assert isinstance(refused.value, FencedInGroupError)
            assert refused.value.code is ErrorCode.CONCURRENT_PRODUCER_COMMIT
            await older.init_transactions(inputs[:1], name, 1)
        else:
            await older.abort_transaction()
        await newer.commit_transaction()
        assert await read_values(oncelog, topic, committed=True) == [b"7"]
        offsets = await admin.list_group_offsets(name, require_stable=True)
        assert {place: offset.offset for place, offset in offsets.items()} == {inputs[1]: 7}
        # The older producer can commit its next transaction.
        await begun(older, topic, name, 8, inputs[0])
        await older.commit_transaction()


async def test_transactions_without_pending_offsets_of_the_same_partition_are_not_aborted(
    oncelog: str, topic: str, name: str, inputs: list[TopicPartition]
) -> None:
    async with (
        Producer(oncelog, transactional_id=f"{name}-a") as first,
        Producer(oncelog, transactional_id=f"{name}-b") as second,
    ):
        await first.init_transactions()
        await second.init_transactions()
        await begun(first, topic, name, 1, inputs[0])
        await begun(second, topic, name, 2, inputs[1])
        await first.commit_transaction()
        # The first producer's transaction has no offsets yet, as in an ordinary rebalance.
        await first.begin_transaction()
        await first.send(topic, b"3")
        await first.flush()
        await second.send_offsets_to_transaction({inputs[0]: OffsetAndMetadata(3)}, name)
        await second.commit_transaction()
        await first.commit_transaction()
    values = await read_values(oncelog, topic, committed=True)
    assert sorted(value or b"" for value in values) == [b"1", b"2", b"3"]


async def test_before_transaction_version_2_every_request_finds_the_groups_coordinator(
    oncelog: str,
    topic: str,
    name: str,
    inputs: list[TopicPartition],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The requests are AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit v4 and EndTxn v4, and
    the request by which a partition leader verifies the transaction. The hash of the transactional
    id would select another shard than the group's."""
    monkeypatch.setattr(TransactionSession, "cluster_version", 1)
    async with (
        Producer(oncelog, transactional_id=f"{name}-a") as producer,
        Producer(oncelog, transactional_id=f"{name}-b") as newer,
        Admin(oncelog) as admin,
    ):
        await producer.init_transactions(inputs, name, 1)
        for number in range(4):
            await begun(producer, topic, name, number, *inputs)
            await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
        offsets = await admin.list_group_offsets(name, require_stable=True)
        assert {offset.offset for offset in offsets.values()} == {3}
        await newer.init_transactions(inputs, name, 2)
        await producer.begin_transaction()
        await producer.send(topic, b"late")
        with pytest.raises(FencedInGroupError):
            await producer.send_offsets_to_transaction({inputs[0]: OffsetAndMetadata(9)}, name)
    values = await read_values(oncelog, topic, committed=True)
    assert sorted(value or b"" for value in values) == [b"1", b"3"]


async def test_ids_of_a_group_are_described_fenced_and_listed_through_their_coordinator(
    oncelog: str, admin: Admin, topic: str, name: str
) -> None:
    group = TransactionGroup(name, 1)
    for number in range(3):
        await member_of(oncelog, admin, group, topic, number)
    ids = [f"{name}/1/{number}" for number in range(3)]
    described = await admin.describe_transactions(ids)
    assert {transaction.state for transaction in described.values()} == {"Ongoing"}
    # An operator aborts the open transactions through their coordinator.
    await admin.fence_producers(ids)
    listed = await admin.list_transactions(transactional_id_pattern=f"{name}/1/.*")
    assert sorted(transaction.transactional_id for transaction in listed) == ids
    assert await read_values(oncelog, topic, committed=True) == []


async def test_with_a_consumer_offsets_are_sent_with_its_group_metadata(
    oncelog: str, topic: str, name: str, inputs: list[TopicPartition]
) -> None:
    """In the final version of KIP-447, the group coordinator checks the generation of the
    consumer."""
    async with (
        Producer(oncelog, transactional_id=name) as producer,
        Consumer(oncelog, group_id=name, heartbeat_interval_ms=100) as consumer,
    ):
        with pytest.raises(IllegalStateError):
            await producer.send_offsets_to_transaction({inputs[0]: OffsetAndMetadata(1)})
        await producer.init_transactions(consumer)
        await producer.begin_transaction()
        with pytest.raises(AbortableError, match="not in a generation"):
            await producer.send_offsets_to_transaction({inputs[0]: OffsetAndMetadata(1)})
        await producer.abort_transaction()
        await consumer.subscribe([inputs[0].topic])
        await poll_until([consumer], consumer.assignment)
        async with producer.transaction():
            await producer.send(topic, b"v")
            await producer.send_offsets_to_transaction({inputs[0]: OffsetAndMetadata(1)})
        async with Admin(oncelog) as admin:
            offsets = await admin.list_group_offsets(name)
        assert offsets[inputs[0]].offset == 1


async def test_a_recreated_group_is_not_refused_for_ever(
    oncelog: str, topic: str, name: str, inputs: list[TopicPartition]
) -> None:
    """The new group counts generations from 1 again. A producer with a lower generation than before
    is accepted if it is the current generation of the group."""
    async with (
        Producer(oncelog, transactional_id=f"{name}-old") as old,
        Producer(oncelog, transactional_id=f"{name}-new") as new,
    ):
        await old.init_transactions(inputs, name, 1_000)
        await old.begin_transaction()
        await old.send(topic, b"old")
        await old.flush()
        with pytest.raises(FencedInGroupError):
            await new.init_transactions(inputs, name, 1)
        async with Consumer(oncelog, group_id=name) as consumer:
            await consumer.subscribe([inputs[0].topic])
            await poll_until([consumer], consumer.assignment)
            generation = consumer.group_metadata().generation_id
            for wrong in (generation + 1, 1_000, 2_000):
                with pytest.raises(FencedInGroupError):
                    await new.init_transactions(inputs, name, wrong)
            await new.init_transactions(inputs, name, generation)
            async with new.transaction():
                await new.send(topic, b"new")
        with pytest.raises(FencedInGroupError):
            await old.commit_transaction()
    assert await read_values(oncelog, topic, committed=True) == [b"new"]


async def test_a_disabled_feature_is_not_announced_and_not_served(
    tmp_path: Path, name: str
) -> None:
    with Oncelog(tmp_path, QUICK | {"group.transactions.enable": "false"}) as broker:
        async with Producer(broker.address, transactional_id=name) as producer:
            with pytest.raises(UnsupportedVersionError):
                await producer.init_transactions([IN0], name, 1)


async def test_on_a_broker_without_the_feature_every_group_transaction_raises_an_error(
    kafka: Kafka, name: str
) -> None:
    async with Producer(kafka.address, transactional_id=name) as producer:
        with pytest.raises(UnsupportedVersionError, match=r"oncelog\.group\.transactions"):
            await producer.init_transactions([IN0], name, 1)
        await producer.init_transactions()
    async with Admin(kafka.address) as admin:
        with pytest.raises(UnsupportedVersionError, match=r"oncelog\.group\.transactions"):
            await admin.init_producer(name, TransactionGroup(name, 1))
