"""After any failure a call ends within its deadline. It ends at once if waiting cannot help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from oncelog_client import (
    Admin,
    AlterConfigOp,
    ConfigResource,
    Consumer,
    FatalError,
    KafkaError,
    Producer,
    ResourceType,
    TopicPartition,
)
from oncelog_client.io.log_offsets import EARLIEST
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import CLOSE, DROP, TOPIC, ScriptedBroker, messages, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)
DEADLINE_MS = 3_000

FAILURES = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, DROP, CLOSE]
LATEST = {ApiKey.METADATA: 12, ApiKey.LIST_OFFSETS: 9}


class _Failing:
    """A broker that fails Metadata and ListOffsets as soon as the test sets `now`."""

    def __init__(self, metadata: object, offsets: object) -> None:
        self.now = False
        self.by_api = {ApiKey.METADATA: metadata, ApiKey.LIST_OFFSETS: offsets}
        self.broker = ScriptedBroker(self.script)

    def script(self, api: ApiKey, request: Any) -> Any:
        failure = self.by_api.get(api) if self.now else None
        if isinstance(failure, int):
            return self.broker.respond(api, LATEST[api], request, failure)
        return failure


async def _took_ms(call: Awaitable[object]) -> float:
    loop = asyncio.get_running_loop()
    before = loop.time()
    with pytest.raises(KafkaError):
        await call
    return (loop.time() - before) * 1000


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.end_offsets([PLACE]),
        lambda consumer: consumer.lag(PLACE),
        lambda consumer: consumer.position(PLACE),
        lambda consumer: consumer.seek_to_end(PLACE),
    ],
)
def test_a_call_that_cannot_get_an_offset_fails_within_its_deadline(
    call: Callable[[Consumer], Awaitable[object]],
) -> None:
    for metadata, offsets in product([None, *FAILURES], FAILURES):
        failing = _Failing(metadata, offsets)

        async def scenario(failing: _Failing = failing) -> None:
            consumer = Consumer(
                SERVER, default_api_timeout_ms=DEADLINE_MS, request_timeout_ms=1_000
            )
            await consumer.start()
            await consumer.assign([PLACE])
            failing.now = True
            assert await _took_ms(call(consumer)) <= DEADLINE_MS + 1
            await consumer.close()

        simulated(failing.broker, scenario)


def test_both_requests_of_a_lag_share_one_deadline() -> None:
    """A former defect: the requests for the end offset and for the position each had their own
    deadline."""
    broker = ScriptedBroker()

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.LIST_OFFSETS:
            return None
        if request.topics[0].partitions[0].timestamp == EARLIEST:
            return DROP
        if asyncio.get_running_loop().time() < DEADLINE_MS / 2_000:
            return broker.respond(api, 9, request, ErrorCode.OFFSET_NOT_AVAILABLE)
        return None

    broker.script = script

    async def scenario() -> None:
        consumer = Consumer(
            SERVER,
            auto_offset_reset="earliest",
            default_api_timeout_ms=DEADLINE_MS,
            request_timeout_ms=10_000,
        )
        await consumer.start()
        await consumer.assign([PLACE])
        assert await _took_ms(consumer.lag(PLACE)) <= DEADLINE_MS + 1
        await consumer.close()

    simulated(broker, scenario)


CONFIGS = ConfigResource(ResourceType.TOPIC, "nosuch")


@pytest.mark.parametrize(
    ("api", "call"),
    [
        (ApiKey.DESCRIBE_CONFIGS, lambda admin: admin.describe_configs([CONFIGS])),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            lambda admin: admin.alter_configs({CONFIGS: [AlterConfigOp("retention.ms", "1")]}),
        ),
    ],
)
def test_settings_of_a_topic_that_does_not_exist_are_refused_at_once(
    api: ApiKey, call: Callable[[Admin], Awaitable[object]]
) -> None:
    """A former defect: the request was repeated until the deadline of 60 s or --give-up-after."""
    broker = ScriptedBroker()

    def script(asked: ApiKey, request: Any) -> Any:
        if asked is not api:
            return None
        m = messages(api)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if api is ApiKey.DESCRIBE_CONFIGS:
            return m.DescribeConfigsResponse(
                results=[m.DescribeConfigsResult(code, None, 2, "nosuch")]
            )
        return m.IncrementalAlterConfigsResponse(
            responses=[m.AlterConfigsResourceResponse(code, None, 2, "nosuch")]
        )

    broker.script = script

    async def scenario() -> None:
        admin = Admin(SERVER)
        await admin.start()
        with pytest.raises(KafkaError, match="there is no topic nosuch") as caught:
            await call(admin)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await admin.close()

    simulated(broker, scenario)
    assert broker.counts[api] == 1


def test_the_search_for_a_broker_and_the_request_to_it_share_one_deadline() -> None:
    """A former defect: the search for the broker had a deadline, and then the request had another
    one."""
    broker = ScriptedBroker()
    broker.script = lambda api, request: DROP if api is ApiKey.DESCRIBE_CONFIGS else None

    async def scenario() -> None:
        admin = Admin(SERVER, default_api_timeout_ms=DEADLINE_MS, request_timeout_ms=60_000)
        await admin.start()
        brokers = [ConfigResource(ResourceType.BROKER, "1"), CONFIGS]
        assert await _took_ms(admin.describe_configs(brokers)) <= DEADLINE_MS + 1
        await admin.close()

    simulated(broker, scenario)


def test_a_request_that_the_socket_does_not_accept_times_out_as_any_other() -> None:
    """A former defect: the timeout began only when the socket had space for the request."""
    broker = ScriptedBroker()

    async def scenario() -> float:
        admin = Admin(SERVER, request_timeout_ms=1_000, default_api_timeout_ms=DEADLINE_MS)
        await admin.start()
        await admin.list_offsets({PLACE: "latest"})
        loop = asyncio.get_running_loop()
        before = loop.time()
        for transport in broker.connections:
            transport.protocol.pause_writing()
        # The request times out on the old connection. The call then repeats it on a new one.
        await admin.list_offsets({PLACE: "latest"})
        took_ms = (loop.time() - before) * 1000
        await admin.close()
        return took_ms

    assert simulated(broker, scenario) < 1_500


def test_a_record_expires_in_time_while_init_producer_id_has_no_response() -> None:
    """A former defect: no record expired until InitProducerId got a response or failed."""
    broker = ScriptedBroker(lambda api, _: DROP if api is ApiKey.INIT_PRODUCER_ID else None)

    async def scenario() -> float:
        producer = Producer(
            SERVER, linger_ms=0, request_timeout_ms=2_000, delivery_timeout_ms=DEADLINE_MS
        )
        await producer.start()
        took_ms = await _took_ms(await producer.send(TOPIC, b"x", partition=0))
        await producer.close(timeout_ms=0)
        return took_ms

    assert simulated(broker, scenario) <= DEADLINE_MS + 1


def test_a_defect_after_init_producer_id_fails_the_buffered_records() -> None:
    """If the defect did not fail the buffered records, they would wait until they expire."""
    broker = ScriptedBroker()

    async def scenario() -> None:
        producer = Producer(SERVER, linger_ms=0)
        await producer.start()
        producer._accumulator.adopt = _broken  # type: ignore[assignment, method-assign]  # a defect
        with pytest.raises(FatalError):
            await (await producer.send(TOPIC, b"x", partition=0))
        await producer.close(timeout_ms=0)

    simulated(broker, scenario)


def _broken(_: object) -> None:
    raise AssertionError("a defect")
