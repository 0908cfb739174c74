"""Clients of a broker that always refuses one API with the same error code. Calls end, requests are
paced, and every exception is retrieved. The tests run in simulated time, so that minutes take
milliseconds."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import Any, Final

import pytest

from oncelog_client import (
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import RETRIABLE, ErrorCode
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated
from tests.harness.client_reading import eventually

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)

# Maximum average rate of refused requests, from all retry loops of a client together. Each loop
# waits 100 to 1,000 ms before a retry (retry.backoff.ms, retry.backoff.max.ms).
MOST_PER_S: Final = 12

CONSUMER_APIS = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.LEAVE_GROUP,
)
PRODUCER_APIS = (
    ApiKey.PRODUCE,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
# Every code that a loop may retry is tested, and every seventh of the other codes.
AGAIN = sorted(
    RETRIABLE
    | {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
OTHERS = [code for code in range(-1, 140) if code not in {0, *AGAIN}]


async def _ended(calls: Iterable[Awaitable[object]]) -> None:
    """Await calls one by one. A call may raise KafkaError, but no other exception, and must end."""
    for call in calls:
        async with asyncio.timeout(60):
            with suppress(KafkaError):
                await call


async def _consume() -> None:
    consumer = Consumer(
        SERVER,
        group_id="g",
        auto_offset_reset="earliest",
        default_api_timeout_ms=5_000,
        request_timeout_ms=3_000,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
    )
    await consumer.start()
    await _ended(
        (
            consumer.subscribe([TOPIC]),
            consumer.poll(5_000),
            consumer.poll(5_000),
            consumer.poll(5_000),
            consumer.commit({PLACE: 1}),
            consumer.end_offsets([PLACE]),
            consumer.close(3_000),
        )
    )


async def _produce() -> None:
    producer = Producer(
        SERVER,
        transactional_id="x",
        max_block_ms=5_000,
        delivery_timeout_ms=4_000,
        request_timeout_ms=3_000,
        linger_ms=0,
    )
    await producer.start()

    async def send() -> None:
        await (await producer.send(TOPIC, b"v"))

    for _ in range(2):
        await _ended(
            (
                producer.init_transactions(),
                producer.begin_transaction(),
                send(),
                producer.send_offsets_to_transaction(
                    {PLACE: OffsetAndMetadata(1)}, ConsumerGroupMetadata("g")
                ),
                producer.commit_transaction(),
                producer.abort_transaction(),
            )
        )
    await _ended([producer.close(3_000)])


async def _produce_without_id() -> None:
    producer = Producer(
        SERVER, max_block_ms=5_000, delivery_timeout_ms=8_000, request_timeout_ms=3_000
    )
    await producer.start()

    async def send() -> None:
        await (await producer.send(TOPIC, b"v"))

    await _ended((send(), send(), producer.close(3_000)))


def _check_rate(broker: ScriptedBroker, what: str) -> None:
    """Check the rate of all APIs together in every second, not only on average."""
    seconds = Counter(int(at_s) for at_s, api, _ in broker.requests)
    # The first second does not count, because it also has the first attempts of all loops.
    worst = max((count for second, count in seconds.items() if second), default=0)
    apis = Counter(api.name for _, api, _ in broker.requests)
    assert worst <= 2 * MOST_PER_S, f"{what}: {worst} requests in one second; {apis}"
    lasted_s = max(seconds, default=0) + 1
    assert len(broker.requests) <= 30 + MOST_PER_S * lasted_s, f"{what}: {apis}"


def _run(api: ApiKey, codes: Iterable[int], version: int, scenario: Any) -> None:
    for code in codes:
        broker = ScriptedBroker(transaction_version=version)
        broker.script = broker.always(api, code)
        simulated(broker, scenario)
        _check_rate(broker, f"{api.name} answered with {code}")


@pytest.fixture(autouse=True)
def _nothing_fails_in_the_background(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.ERROR, "oncelog_client")
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("api", CONSUMER_APIS, ids=lambda api: api.name)
def test_a_consumer_that_is_always_refused_paces_its_requests(api: ApiKey) -> None:
    """A former defect: with codes 27 and 79 for JoinGroup and SyncGroup, and 1 for Fetch, the
    consumer sent 1,650 to 3,480 requests a second."""
    _run(api, AGAIN, 2, _consume)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("api", PRODUCER_APIS, ids=lambda api: api.name)
def test_a_producer_that_is_always_refused_paces_its_requests(api: ApiKey, version: int) -> None:
    """A former defect: after codes 49 and 59 for AddPartitionsToTxn, a task's exception was not
    retrieved."""
    _run(api, AGAIN, version, _produce)


@pytest.mark.parametrize(
    "api", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID], ids=lambda api: api.name
)
def test_an_idempotent_producer_that_is_always_refused_paces_its_requests(api: ApiKey) -> None:
    _run(api, AGAIN, 2, _produce_without_id)


def test_a_code_that_no_loop_retries_ends_every_call() -> None:
    for api in CONSUMER_APIS:
        _run(api, OTHERS[::7], 2, _consume)
    for api in PRODUCER_APIS:
        _run(api, OTHERS[::7], 0, _produce)


@pytest.mark.parametrize("code", [49, 59, 47])
def test_no_partition_is_added_to_a_transaction_that_is_being_aborted(code: int) -> None:
    """A former defect: a second AddPartitionsToTxn got its response when the producer was ready for
    the next transaction, and a task raised `IllegalStateError: an abortable error is not possible
    while ready`."""
    broker = ScriptedBroker(transaction_version=0)
    broker.script = broker.always(ApiKey.ADD_PARTITIONS_TO_TXN, code)

    async def scenario() -> None:
        producer = Producer(SERVER, transactional_id="x", linger_ms=0, max_block_ms=3_000)
        await producer.start()
        await producer.init_transactions()
        await producer.begin_transaction()
        for _ in range(2):
            with pytest.raises(KafkaError):
                await (await producer.send(TOPIC, b"v"))
        if code != 47:
            await producer.abort_transaction()
        await producer.close()

    simulated(broker, scenario)
    assert broker.counts[ApiKey.ADD_PARTITIONS_TO_TXN] == 1


def test_the_exception_of_a_refused_join_is_retrieved_without_a_poll() -> None:
    """After the refusal the application does not poll, so no call raises the exception. The client
    itself must retrieve it."""
    broker = ScriptedBroker()
    broker.script = broker.always(ApiKey.JOIN_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def scenario() -> None:
        consumer = Consumer(SERVER, group_id="g")

        async def is_refused() -> bool:
            session = consumer._group
            return session is not None and session._round is not None and session._round.done()

        await consumer.start()
        await consumer.subscribe([TOPIC])
        assert await consumer.poll(0) == []
        await eventually(is_refused)
        await consumer.close()
        gc.collect()

    simulated(broker, scenario)
