"""An error says what happened, to what, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog_client import (
    ClosedError,
    Consumer,
    IllegalStateError,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.errors import AbortableError
from oncelog_client.io.fence_reasons import described
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import GROUP_TRANSACTIONS
from oncelog_protocol.messages.describe_transactions import FenceData
from tests.client.scripted_broker import TOPIC, ScriptedBroker, messages, simulated
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S, eventually

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)

Call = Callable[[Any], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: p.begin_transaction(), "call init_transactions() first"),
        (lambda p: p.send(TOPIC, b""), "call init_transactions() first"),
        (lambda p: p.commit_transaction(), "call init_transactions() first"),
        (lambda p: p.prepare_transaction(), "transaction_two_phase_commit_enable=True"),
        (lambda p: p.send_offsets_to_transaction({}), "pass consumer.group_metadata()"),
    ],
)
def test_the_error_of_a_producer_names_the_call_that_must_come_first(call: Call, text: str) -> None:
    async def scenario() -> None:
        producer = Producer(SERVER, transactional_id="x")
        await producer.start()
        with pytest.raises(IllegalStateError) as caught:
            await call(producer)
        assert text in str(caught.value)
        assert "INVALID_TXN_STATE" not in str(caught.value)
        await producer.close()

    simulated(ScriptedBroker(), scenario)


def test_outside_a_transaction_nothing_can_be_sent() -> None:
    """A former defect: the message was `INVALID_TXN_STATE: nothing can be sent while ready`."""

    async def scenario() -> None:
        producer = Producer(SERVER, transactional_id="x")
        await producer.start()
        await producer.init_transactions()
        with pytest.raises(IllegalStateError, match=r"call begin_transaction\(\) first"):
            await producer.send(TOPIC, b"")
        with pytest.raises(IllegalStateError, match=r"call begin_transaction\(\) first"):
            await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) or abort"):
            await producer.begin_transaction()
        await producer.close()

    simulated(ScriptedBroker(), scenario)


def test_a_client_that_is_not_open_says_so_without_a_code_of_a_broker() -> None:
    """A former defect: the message was `UNKNOWN_SERVER_ERROR: the producer is not open`."""

    async def scenario() -> None:
        for client, call in (
            (Producer(SERVER), lambda producer: producer.send(TOPIC, b"")),
            (Consumer(SERVER), lambda consumer: consumer.poll(1)),
        ):
            called: Any = call
            with pytest.raises(ClosedError) as caught:
                await called(client)
            assert "call start()" in str(caught.value)
            assert "UNKNOWN_SERVER_ERROR" not in str(caught.value)
            await client.start()
            await client.close()
            with pytest.raises(ClosedError, match="closed: make a new one"):
                await called(client)

    simulated(ScriptedBroker(), scenario)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.subscribe([TOPIC]), "pass group_id=…"),
        (lambda c: c.poll(1), "call subscribe() or assign() first"),
        (lambda c: c.commit({PLACE: OffsetAndMetadata(1)}), "pass group_id=…"),
        (lambda c: c.committed(PLACE), "pass group_id=…"),
    ],
)
def test_the_error_of_a_consumer_names_the_missing_call_or_setting(call: Call, text: str) -> None:
    async def scenario() -> None:
        consumer = Consumer(SERVER)
        await consumer.start()
        with pytest.raises(IllegalStateError) as caught:
            await call(consumer)
        assert text in str(caught.value)
        await consumer.close()

    simulated(ScriptedBroker(), scenario)


def test_the_error_of_an_unknown_partition_names_the_known_partitions() -> None:
    async def scenario() -> None:
        producer = Producer(SERVER)
        await producer.start()
        with pytest.raises(KafkaError, match="t has no partition 9, only 0 to 0") as caught:
            await producer.send(TOPIC, b"", partition=9)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await producer.close()

    simulated(ScriptedBroker(), scenario)


# -- fences


def _fence(cause: str, epoch: int, client: str = "new-one") -> FenceData:
    return FenceData(7, epoch, cause, 1_000, client, "/127.0.0.1" if client else "", 0)


@pytest.mark.parametrize(
    ("fence", "text"),
    [
        (
            _fence("newer instance", 3),
            "fenced by a newer instance of x: client new-one at 127.0.0.1, 12 ms ago",
        ),
        (
            _fence("timed out", 3, client=""),
            "the coordinator aborted the transaction of x, which had timed out, 12 ms ago",
        ),
        (
            _fence("group is full", 3),
            "fenced (group is full): x: client new-one at 127.0.0.1, 12 ms ago",
        ),
    ],
)
def test_the_text_of_a_fence_names_cause_client_and_time(fence: FenceData, text: str) -> None:
    assert described("x", ProducerIdAndEpoch(7, 3), [fence], 1_012) == text


def test_fences_of_other_producer_ids_and_epochs_are_ignored() -> None:
    others = [_fence("newer instance", 2), FenceData(8, 9, "operator", 0, "", "", 0)]
    assert described("x", ProducerIdAndEpoch(7, 3), others, 0) is None
    mine = [_fence("newer instance", 2), _fence("timed out", 3), _fence("operator", 4)]
    assert "timed out" in (described("x", ProducerIdAndEpoch(7, 3), mine, 1_000) or "")


def _fenced(broker: ScriptedBroker) -> Any:
    def script(api: ApiKey, request: Any) -> Any:
        if api is ApiKey.INIT_PRODUCER_ID and request.producer_id >= 0:
            return broker.respond(api, 5, request, ErrorCode.PRODUCER_FENCED)
        if api is ApiKey.END_TXN:
            return broker.respond(api, 5, request, ErrorCode.PRODUCER_FENCED)
        if api is ApiKey.DESCRIBE_TRANSACTIONS:
            m = messages(api)
            fence = FenceData(100, 0, "newer instance", 1_767_225_600_000, "new-one", "/::1", 1)
            state = m.TransactionState(transactional_id="x", fences=[fence])
            return m.DescribeTransactionsResponse(transaction_states=[state])
        return None

    return script


@pytest.mark.parametrize("ours", [True, False])
def test_only_oncelog_is_asked_why_a_producer_was_fenced(ours: bool) -> None:
    broker = ScriptedBroker()
    broker.script = _fenced(broker)
    broker.features = {GROUP_TRANSACTIONS: 1} if ours else {}

    async def scenario() -> None:
        producer = Producer(SERVER, transactional_id="x", linger_ms=0)
        await producer.start()
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(TOPIC, b"v"))
        for _ in range(2):
            with pytest.raises(ProducerFencedError) as caught:
                await producer.commit_transaction()
            assert caught.value.code is ErrorCode.PRODUCER_FENCED
            is_named = "fenced by a newer instance of x: client new-one at ::1" in str(caught.value)
            assert is_named is ours
        await producer.close()

    simulated(broker, scenario)
    assert broker.counts[ApiKey.DESCRIBE_TRANSACTIONS] == int(ours)


async def test_a_fenced_producer_learns_by_which_client(tmp_path: Any) -> None:
    with Oncelog(tmp_path) as oncelog:
        async with asyncio.timeout(DEADLINE_S):
            old = Producer(oncelog.address, transactional_id="zombie-1", client_id="old-one")
            new = Producer(oncelog.address, transactional_id="zombie-1", client_id="new-one")
            await old.start()
            await new.start()
            await old.init_transactions()
            await old.begin_transaction()
            await (await old.send("t", b"v"))
            await new.init_transactions()
            with pytest.raises(ProducerFencedError) as caught:
                await old.commit_transaction()
            assert "fenced by a newer instance of zombie-1: client new-one at 127.0.0.1" in str(
                caught.value
            )
            await old.close()
            await new.close()


async def test_a_producer_that_timed_out_learns_the_cause(tmp_path: Any) -> None:
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with Oncelog(tmp_path, quick) as oncelog:
        async with asyncio.timeout(DEADLINE_S):
            producer = Producer(
                oncelog.address, transactional_id="slow", transaction_timeout_ms=200
            )
            await producer.start()
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("t", b"v"))
            await _until_aborted(oncelog.address, "slow")
            with pytest.raises(AbortableError) as caught:
                await producer.commit_transaction()
            assert "the coordinator aborted the transaction of slow, which had timed out" in str(
                caught.value
            )
            assert "call abort_transaction()" in str(caught.value)
            await producer.abort_transaction()
            await producer.close()


async def _until_aborted(address: str, transactional_id: str) -> None:
    from oncelog_client import Admin

    async with Admin(address) as admin:

        async def is_aborted() -> bool:
            found = await admin.describe_transactions([transactional_id])
            return found[transactional_id].state not in ("Ongoing", "PrepareAbort")

        await eventually(is_aborted)
