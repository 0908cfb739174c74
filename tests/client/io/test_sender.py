"""A producer against a scripted broker, on simulated time: the results of its deliveries, and its
requests for a producer id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import oncelog_client.io.batch_outcomes
import oncelog_client.io.identity_request
from oncelog_client import Producer, RecordMetadata, TopicPartition
from oncelog_client.errors import KafkaError, TimedOutError
from oncelog_client.io.clock import monotonic_ms
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import LeaderIdAndEpoch
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated

SERVER = "broker:9092"
PRODUCE_VERSION = 12
INIT_VERSION = 4


def _run(
    broker: ScriptedBroker, use: Callable[[Producer], Awaitable[None]], **settings: Any
) -> None:
    async def scenario() -> None:
        producer = Producer(SERVER, **settings)
        await producer.start()
        await use(producer)
        await producer.close()

    simulated(broker, scenario)


async def _two_in_a_batch(producer: Producer) -> list[RecordMetadata]:
    futures = [
        await producer.send(TOPIC, value, partition=0, timestamp_ms=7) for value in (b"a", b"b")
    ]
    await producer.flush()
    return [future.result() for future in futures]


def _appended_at(broker: ScriptedBroker, timestamp_ms: int) -> None:
    """Let the broker respond that it has set the timestamps of the records."""

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.PRODUCE:
            return None
        response = broker.respond(api, PRODUCE_VERSION, request)
        response.responses[0].partition_responses[0].log_append_time_ms = timestamp_ms
        return response

    broker.script = script


@pytest.mark.parametrize(
    ("settings", "offsets"),
    [({}, [0, 1]), ({"acks": 0, "enable_idempotence": False}, [-1, -1])],
    ids=["acks=all", "acks=0"],
)
def test_each_record_gets_its_own_offset_if_the_broker_returns_an_offset(
    settings: dict[str, Any], offsets: list[int]
) -> None:
    broker = ScriptedBroker()

    async def use(producer: Producer) -> None:
        found = await _two_in_a_batch(producer)
        assert [(row.offset, row.timestamp_ms) for row in found] == [(at, 7) for at in offsets]

    _run(broker, use, linger_ms=50, **settings)
    assert broker.counts[ApiKey.PRODUCE] == 1


@pytest.mark.parametrize(("append_ms", "expected_ms"), [(-1, 7), (0, 0), (9, 9)])
def test_a_timestamp_that_the_broker_set_is_returned_for_each_record(
    append_ms: int, expected_ms: int
) -> None:
    broker = ScriptedBroker()
    _appended_at(broker, append_ms)

    async def use(producer: Producer) -> None:
        found = await _two_in_a_batch(producer)
        assert [row.timestamp_ms for row in found] == [expected_ms] * 2

    _run(broker, use, linger_ms=50)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_batch_goes_to_the_leader_that_a_refusal_names_at_once(is_named: bool) -> None:
    """KIP-951: without the name, the client waits."""
    broker = ScriptedBroker()

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.PRODUCE or broker.counts[ApiKey.PRODUCE] > 1:
            return None
        response = broker.respond(api, PRODUCE_VERSION, request)
        row = response.responses[0].partition_responses[0]
        row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_named:
            row.current_leader = LeaderIdAndEpoch(1, 1_000)
        return response

    broker.script = script

    async def use(producer: Producer) -> None:
        await (await producer.send(TOPIC, b"v", partition=0))

    _run(broker, use, linger_ms=0, retry_backoff_ms=200)
    first, second = (at_s for at_s, api, _ in broker.requests if api is ApiKey.PRODUCE)
    assert (second - first < 0.1) is is_named


def test_a_batch_that_expires_names_its_last_refusal() -> None:
    broker = ScriptedBroker()
    broker.script = broker.always(ApiKey.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS)

    async def use(producer: Producer) -> None:
        future = await producer.send(TOPIC, b"v", partition=0)
        with pytest.raises(TimedOutError, match=r"t-0: not acknowledged within .*1500") as caught:
            await future
        cause = caught.value.__cause__
        assert isinstance(cause, KafkaError)
        assert cause.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert str(cause) in str(caught.value)
        assert not caught.value.not_written

    _run(broker, use, delivery_timeout_ms=1_500, request_timeout_ms=1_000, linger_ms=0)


def test_a_batch_that_expires_before_it_is_sent_is_not_written() -> None:
    broker = ScriptedBroker()
    broker.script = broker.always(ApiKey.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def use(producer: Producer) -> None:
        future = await producer.send(TOPIC, b"v", partition=0)
        with pytest.raises(TimedOutError) as caught:
            await future
        assert caught.value.not_written

    _run(broker, use, delivery_timeout_ms=1_500, request_timeout_ms=1_000, linger_ms=0)
    assert not broker.counts[ApiKey.PRODUCE]


@pytest.mark.parametrize("is_duplicate", [False, True])
def test_encoded_records_get_the_offset_of_their_last_record(is_duplicate: bool) -> None:
    """The offset is -1 if the leader has the batch and does not remember its offset."""
    encoded = EncodedRecords.of([NewRecord(3, None, b"a"), NewRecord(5, None, b"b")])
    broker = ScriptedBroker()
    if is_duplicate:
        broker.script = broker.always(ApiKey.PRODUCE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

    async def use(producer: Producer) -> None:
        found = await (await producer.send_encoded(TopicPartition(TOPIC, 0), encoded))
        assert (found.offset, found.timestamp_ms) == (-1 if is_duplicate else 1, 5)

    _run(broker, use, linger_ms=0)


def test_a_producer_without_the_right_to_an_id_fails_its_batches_at_once() -> None:
    """For the next batch, the producer requests an id again."""
    broker = ScriptedBroker()
    broker.script = broker.always(ApiKey.INIT_PRODUCER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def use(producer: Producer) -> None:
        began_ms = monotonic_ms()
        for value in (b"a", b"b"):
            future = await producer.send(TOPIC, value, partition=0)
            with pytest.raises(KafkaError) as caught:
                await future
            assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert monotonic_ms() - began_ms < 1_000

    _run(broker, use, linger_ms=0)
    assert broker.counts[ApiKey.INIT_PRODUCER_ID] == 2
    assert not broker.counts[ApiKey.PRODUCE]


def test_requests_for_a_producer_id_pause_longer_after_each_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pauses start anew when a producer at its last epoch requests the next id."""
    for module in (oncelog_client.io.batch_outcomes, oncelog_client.io.identity_request):
        monkeypatch.setattr(module, "fraction", lambda: 0.5)
    broker = ScriptedBroker()
    times: list[float] = []
    lost = iter([True])
    # The responses to InitProducerId: an epoch, or None for an error code.
    epochs = iter([None, None, 32_767, None, 0])

    def script(api: ApiKey, request: Any) -> Any:
        if api is ApiKey.INIT_PRODUCER_ID:
            times.append(monotonic_ms())
            epoch = next(epochs)
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if epoch is None else ErrorCode.NONE
            response = broker.respond(api, INIT_VERSION, request, code)
            if epoch is not None:
                response.producer_epoch = epoch
            return response
        if api is ApiKey.PRODUCE and next(lost, False):
            return broker.respond(api, PRODUCE_VERSION, request, ErrorCode.UNKNOWN_PRODUCER_ID)
        return None

    broker.script = script

    async def use(producer: Producer) -> None:
        began_ms = monotonic_ms()
        future = await producer.send(TOPIC, b"v", partition=0)
        assert (await future).offset == 0
        # The three pauses take 4,000 ms. The sender wakes as soon as it has an id, so nothing else
        # takes long.
        assert monotonic_ms() - began_ms < 4_100

    _run(broker, use, retry_backoff_ms=1_000, retry_backoff_max_ms=60_000, linger_ms=0)
    first, second, third, fourth, fifth = times
    assert (second - first, third - second) == pytest.approx((1_000, 2_000), abs=5)
    assert fifth - fourth == pytest.approx(1_000, abs=5)
