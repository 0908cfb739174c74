"""Transactions with a running broker: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from oncelog.testing.broker import QUICK
from oncelog_client import (
    AbortableError,
    Admin,
    CommitOutcomeUnknown,
    Consumer,
    FatalError,
    FencedInstanceError,
    IllegalStateError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from oncelog_client.core.membership import MemberState
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import CoordinatorType
from oncelog_client.transaction.session import TransactionSession
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from tests.harness.broker import Oncelog
from tests.harness.client_reading import (
    DEADLINE_S,
    eventually,
    poll_until,
    read,
    read_decided,
    read_values,
)
from tests.harness.kafka.kafka import Kafka
from tests.harness.lossy_proxy import LossyProxy

# The transaction timeout. A test lets one transaction time out. The next transaction must end
# before it times out, even if the computer pauses.
TIMEOUT_MS = 4_000
# Time limit of a commit that gets no response, because the proxy loses all responses to EndTxn.
COMMIT_TIMEOUT_MS = 2_000


async def test_a_timeout_above_the_brokers_limit_is_refused_with_the_name_of_the_limit(
    bootstrap: str, name: str
) -> None:
    refused_ms = 900_001
    limit = f"transaction.timeout.ms={refused_ms}: the broker allows at most transaction.max"
    producer = Producer(bootstrap, transactional_id=name, transaction_timeout_ms=refused_ms)
    async with producer:
        with pytest.raises(FatalError, match=limit):
            await producer.init_transactions()
    async with Admin(bootstrap) as admin:
        with pytest.raises(FatalError, match=limit):
            await admin.init_producer(name, transaction_timeout_ms=refused_ms)


@pytest_asyncio.fixture
async def transactional(bootstrap: str, name: str) -> AsyncIterator[Producer]:
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        yield producer


async def test_committed_is_visible_and_aborted_is_not(
    bootstrap: str, transactional: Producer, topic: str
) -> None:
    async with transactional.transaction():
        await transactional.send(topic, b"one", partition=0)
        await transactional.send(topic, b"two", partition=1)
    await transactional.begin_transaction()
    await (await transactional.send(topic, b"aborted", partition=0))
    await transactional.abort_transaction()
    await transactional.begin_transaction()
    await transactional.send(topic, b"three", partition=0)
    await transactional.commit_transaction()
    assert await read_decided(bootstrap, topic) == [b"one", b"three", b"two"]
    everything = await read_values(bootstrap, topic, committed=False)
    assert everything == [b"one", b"aborted", b"three", b"two"]


async def test_many_transactions_one_after_the_other(
    bootstrap: str, transactional: Producer, topic: str
) -> None:
    for number in range(30):
        await transactional.begin_transaction()
        await transactional.send(topic, b"%d" % number, partition=0)
        if number % 3:
            await transactional.commit_transaction()
        else:
            await transactional.abort_transaction()
    expected = [b"%d" % number for number in range(30) if number % 3]
    assert await read_decided(bootstrap, topic) == expected


@pytest.mark.parametrize("error", [RuntimeError, FencedInstanceError, asyncio.CancelledError])
async def test_an_exception_in_the_transaction_block_aborts(
    bootstrap: str, transactional: Producer, topic: str, error: type[BaseException]
) -> None:
    async def work() -> None:
        async with transactional.transaction():
            await transactional.send(topic, b"aborted", partition=0)
            raise error

    with pytest.raises(error):
        await work()
    async with transactional.transaction():
        await transactional.send(topic, b"committed", partition=0)
    assert await read_decided(bootstrap, topic) == [b"committed"]


async def test_an_empty_transaction_writes_no_marker(
    bootstrap: str, transactional: Producer, topic: str
) -> None:
    for _ in range(3):
        async with transactional.transaction():
            pass
    await transactional.begin_transaction()
    await transactional.abort_transaction()
    async with transactional.transaction():
        await transactional.send(topic, b"one", partition=0)
    assert await read_decided(bootstrap, topic) == [b"one"]
    # The log has one record and one marker, so the empty transactions have no marker.
    async with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        place = TopicPartition(topic, 0)
        assert (await consumer.end_offsets([place]))[place] == 2


async def test_the_end_offset_of_a_read_committed_consumer_is_the_last_stable_offset(
    bootstrap: str, transactional: Producer, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    async with transactional.transaction():
        await transactional.send(topic, b"one", partition=0)
    async with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        await consumer.assign([tp])
        await consumer.seek_to_beginning()
        await transactional.begin_transaction()
        await (await transactional.send(topic, b"open", partition=0))
        # One record and its marker are stable. The open transaction is not.
        assert await consumer.end_offsets([tp]) == {tp: 2}
        assert [record.value for record in await read(consumer, 1)] == [b"one"]
        assert await consumer.poll(100) == []
        assert await consumer.lag(tp) == {tp: 0}
        await transactional.commit_transaction()
        assert [record.value for record in await read(consumer, 1)] == [b"open"]
        await consumer.seek_to_end(tp)
        assert await consumer.position(tp) == 4
    async with Consumer(bootstrap) as reader:
        assert await reader.end_offsets([tp]) == {tp: 4}


async def copy_once(consumer: Consumer, producer: Producer, out: str, count: int) -> None:
    """Read `count` records and write them to `out`, with the offsets, in one transaction."""
    records = await read(consumer, count)
    async with producer.transaction():
        for record in records:
            await producer.send(out, record.value, partition=0)
        offsets = {
            record.topic_partition: OffsetAndMetadata(record.offset + 1) for record in records
        }
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


async def test_g7_a_transaction_commits_its_offsets_and_an_abort_does_not_rewind_the_consumer(
    bootstrap: str, admin: Admin, transactional: Producer, producer: Producer, name: str
) -> None:
    await admin.create_topics([NewTopic(f"{name}-in", 1, 1), NewTopic(f"{name}-out", 1, 1)])
    tp = TopicPartition(f"{name}-in", 0)
    for number in range(6):
        await producer.send(tp.topic, b"%d" % number)
    await producer.flush()
    async with Consumer(
        bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_poll_records=2,
    ) as consumer:
        await consumer.subscribe([tp.topic])
        await copy_once(consumer, transactional, f"{name}-out", 2)
        records = await read(consumer, 2)
        await transactional.begin_transaction()
        await transactional.send_offsets_to_transaction({tp: OffsetAndMetadata(4)}, name)
        await transactional.abort_transaction()
        # An abort does not rewind the position, so the test resets it.
        assert await consumer.position(tp) == records[-1].offset + 1
        await consumer.reset_to_last_committed()
        assert await consumer.position(tp) == 2
        await copy_once(consumer, transactional, f"{name}-out", 2)
        await copy_once(consumer, transactional, f"{name}-out", 2)
        assert await consumer.committed(tp) == {tp: OffsetAndMetadata(6)}
    copied = await read_decided(bootstrap, f"{name}-out")
    assert copied == [b"%d" % number for number in range(6)]


async def test_offsets_of_a_zombie_consumer_are_refused_and_the_producer_continues(
    bootstrap: str, transactional: Producer, topic: str, name: str
) -> None:
    async with Consumer(bootstrap, group_id=name, heartbeat_interval_ms=100) as consumer:
        await consumer.subscribe([topic])
        await poll_until([consumer], consumer.assignment)
        zombie = consumer.group_metadata()
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
    await transactional.begin_transaction()
    await transactional.send(topic, b"zombie", partition=0)
    with pytest.raises(AbortableError) as caught:
        await transactional.send_offsets_to_transaction(offsets, zombie)
    with pytest.raises(AbortableError):
        await transactional.commit_transaction()
    await transactional.abort_transaction()
    assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    async with transactional.transaction():
        await transactional.send(topic, b"alive", partition=0)
    assert await read_decided(bootstrap, topic) == [b"alive"]


async def test_offsets_of_a_member_that_was_removed_between_two_polls_are_refused(
    bootstrap: str, transactional: Producer, topic: str, name: str
) -> None:
    """A heartbeat notices the removal before the offsets are sent. The offsets must still have the
    old generation, because the broker would accept offsets without a generation (KIP-447)."""
    settings: dict[str, Any] = {"group_id": name, "heartbeat_interval_ms": 100}
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.subscribe([topic])
        await poll_until([consumer], consumer.assignment)
        session = consumer._group
        assert session is not None
        member_id = consumer.group_metadata().member_id
        removal = LeaveGroupRequest(
            group_id=name, member_id=member_id, members=[MemberIdentity(member_id=member_id)]
        )
        await consumer._cluster.call_coordinator(
            CoordinatorType.GROUP, name, removal, LeaveGroupResponse
        )

        async def has_noticed() -> bool:
            return session.membership.state is MemberState.UNJOINED

        await eventually(has_noticed)
        await transactional.begin_transaction()
        await transactional.send(topic, b"copied", partition=0)
        with pytest.raises(AbortableError) as caught:
            await transactional.send_offsets_to_transaction(
                {TopicPartition(topic, 0): OffsetAndMetadata(1)}, consumer.group_metadata()
            )
        await transactional.abort_transaction()
    assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


async def test_a_newer_producer_fences_the_older_one(
    bootstrap: str, transactional: Producer, topic: str, name: str
) -> None:
    await transactional.begin_transaction()
    await (await transactional.send(topic, b"old", partition=0))
    async with Producer(bootstrap, transactional_id=name) as newer:
        await newer.init_transactions()
        async with newer.transaction():
            await newer.send(topic, b"new", partition=0)
        with pytest.raises(ProducerFencedError):
            await transactional.commit_transaction()
        for call in (transactional.begin_transaction, transactional.abort_transaction):
            with pytest.raises(ProducerFencedError):
                await call()
        async with newer.transaction():
            await newer.send(topic, b"still", partition=0)
    assert await read_decided(bootstrap, topic) == [b"new", b"still"]


async def test_a_fenced_producer_finds_out_by_sending(
    bootstrap: str, transactional: Producer, topic: str, name: str
) -> None:
    async with transactional.transaction():
        await transactional.send(topic, b"first", partition=0)
    async with Producer(bootstrap, transactional_id=name) as newer:
        await newer.init_transactions()
        with pytest.raises(FatalError):
            async with transactional.transaction():
                await transactional.send(topic, b"zombie", partition=0)
    assert await read_decided(bootstrap, topic) == [b"first"]


async def test_a_transaction_the_coordinator_timed_out_is_not_committed(
    bootstrap: str, topic: str, name: str
) -> None:
    settings: dict[str, Any] = {"transactional_id": name, "transaction_timeout_ms": TIMEOUT_MS}
    async with Producer(bootstrap, **settings) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(topic, b"late", partition=0))
        async with Consumer(bootstrap, isolation_level="read_committed") as reader:
            await aborted(reader, TopicPartition(topic, 0))
        with pytest.raises((AbortableError, ProducerFencedError)) as caught:
            await producer.commit_transaction()
        if isinstance(caught.value, AbortableError):
            # The coordinator, not a newer producer, bumped the epoch. This producer therefore
            # continues.
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"in time", partition=0)
    visible = await read_decided(bootstrap, topic)
    assert visible == ([b"in time"] if isinstance(caught.value, AbortableError) else [])


async def aborted(reader: Consumer, tp: TopicPartition) -> None:
    """Wait until the log has the abort marker of the open transaction."""
    async with asyncio.timeout(DEADLINE_S):
        await reader.assign([tp])
        while (await reader.end_offsets([tp]))[tp] < 2:
            await reader.poll(50)


async def test_calls_out_of_order_are_refused(bootstrap: str, topic: str, name: str) -> None:
    async with Producer(bootstrap, transactional_id=name) as producer:
        with pytest.raises(IllegalStateError):
            await producer.begin_transaction()
        await producer.init_transactions()
        with pytest.raises(IllegalStateError):
            await producer.init_transactions()
        with pytest.raises(IllegalStateError):
            await producer.send(topic, b"outside")
        with pytest.raises(IllegalStateError):
            await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError):
            await producer.begin_transaction()
        await producer.abort_transaction()
    assert await read_values(bootstrap, topic, committed=False) == []


async def test_closing_aborts_an_open_transaction(bootstrap: str, topic: str, name: str) -> None:
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(topic, b"open", partition=0))
    async with Consumer(bootstrap, isolation_level="read_committed") as reader:
        await aborted(reader, TopicPartition(topic, 0))
    assert await read_values(bootstrap, topic, committed=True) == []


async def test_before_version_2_partitions_and_groups_are_added_by_the_client(
    bootstrap: str, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client acts as in a cluster without transaction.version 2.
    monkeypatch.setattr(TransactionSession, "cluster_version", 1)
    tp = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=name) as producer, Admin(bootstrap) as admin:
        await producer.init_transactions()
        for number in range(8):
            await producer.begin_transaction()
            for partition in (0, 1):
                await producer.send(topic, b"%d" % number, partition=partition)
            await producer.send_offsets_to_transaction({tp: OffsetAndMetadata(number)}, name)
            if number % 2:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        assert await admin.list_group_offsets(name, require_stable=True) == {
            tp: OffsetAndMetadata(7)
        }
    committed = await read_decided(bootstrap, topic)
    assert committed == [b"1", b"3", b"5", b"7"] * 2


# -- lost responses


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def proxy_of_module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LossyProxy]:
    """A proxy in front of a broker, which advertises the proxy's address to its clients."""
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
    kind = Kafka if request.param == "kafka" else Oncelog
    folder = tmp_path_factory.mktemp("proxied")
    with LossyProxy() as proxy, kind(folder, {**QUICK, **proxy.advertised}) as broker:
        proxy.target = broker.address
        yield proxy


@pytest.fixture
def proxy(proxy_of_module: LossyProxy) -> Iterator[LossyProxy]:
    """The proxy of the module. It loses no response until the test says so."""
    proxy_of_module.lost = 0
    yield proxy_of_module
    proxy_of_module.to_lose.clear()


async def test_a_transaction_is_committed_once_although_a_response_is_lost(
    proxy: LossyProxy, name: str
) -> None:
    source, group = f"{name}-in", f"{name}-group"
    async with (
        Producer(proxy.address, transactional_id=name) as producer,
        Admin(proxy.address) as admin,
    ):
        await admin.create_topics([NewTopic(name, 1, 1), NewTopic(source, 1, 1)])
        proxy.to_lose[ApiKey.INIT_PRODUCER_ID] = 1
        await producer.init_transactions()
        losses = (
            ApiKey.PRODUCE,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
            ApiKey.FIND_COORDINATOR,
            ApiKey.METADATA,
        )
        for number, api in enumerate(losses):
            proxy.to_lose[api] = 1
            async with producer.transaction():
                await producer.send(name, b"%d" % number)
                offsets = {TopicPartition(source, 0): OffsetAndMetadata(number)}
                await producer.send_offsets_to_transaction(offsets, group)
        assert proxy.lost >= 4
        proxy.to_lose.clear()
        assert await admin.list_group_offsets(group, require_stable=True) == {
            TopicPartition(source, 0): OffsetAndMetadata(len(losses) - 1)
        }
        committed = await read_values(proxy.address, name, committed=True)
    assert committed == [b"%d" % number for number in range(len(losses))]


async def commit_in_vain(
    producer: Producer, proxy: LossyProxy, topic: str, value: bytes
) -> CommitOutcomeUnknown:
    """Commit a record, and return the error of the commit. The coordinator commits, but all
    responses to EndTxn are lost. Only this commit has the time limit COMMIT_TIMEOUT_MS."""
    proxy.to_lose[ApiKey.END_TXN] = 1_000_000
    assert producer._lifecycle is not None
    session = producer._lifecycle._session
    commit = session.commit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "commit", lambda _: commit(monotonic_ms() + COMMIT_TIMEOUT_MS))
        with pytest.raises(CommitOutcomeUnknown) as caught:
            async with producer.transaction():
                await producer.send(topic, value)
    return caught.value


async def test_a_commit_with_an_unknown_outcome_cannot_be_aborted_but_can_be_retried(
    proxy: LossyProxy, name: str
) -> None:
    async with Producer(proxy.address, transactional_id=name) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(name, b"first")
        assert not (await commit_in_vain(producer, proxy, name, b"second")).fatal
        with pytest.raises(IllegalStateError):
            await producer.abort_transaction()
        with pytest.raises(IllegalStateError):
            await producer.begin_transaction()
        proxy.to_lose.clear()
        await producer.commit_transaction()
        async with producer.transaction():
            await producer.send(name, b"third")
        values = await read_values(proxy.address, name, committed=True)
    assert sorted(value or b"" for value in values) == [b"first", b"second", b"third"]


async def test_a_fenced_retry_of_a_commit_with_an_unknown_outcome_leaves_it_unknown(
    proxy: LossyProxy, name: str
) -> None:
    async with Producer(proxy.address, transactional_id=name) as producer:
        await producer.init_transactions()
        await commit_in_vain(producer, proxy, name, b"decided")
        async with Producer(proxy.address, transactional_id=name) as newer:
            await newer.init_transactions()
        proxy.to_lose.clear()
        with pytest.raises(CommitOutcomeUnknown) as caught:
            await producer.commit_transaction()
        assert caught.value.fatal
    assert await read_values(proxy.address, name, committed=True) == [b"decided"]
