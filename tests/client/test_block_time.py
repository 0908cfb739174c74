"""`max_block_ms` limits a whole call of a transactional producer, with all its waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog_client import (
    AbortableError,
    CommitOutcomeUnknown,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    TimedOutError,
    TopicPartition,
)
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import DROP, TOPIC, Script, ScriptedBroker, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)
MAX_BLOCK_MS = 3_000
# Until this time Produce is refused, so that the first step of a call takes most of max_block_ms.
WRITTEN_AT_S = 2.5


async def offsets(producer: Producer) -> None:
    await producer.send_offsets_to_transaction({PLACE: OffsetAndMetadata(1)}, "g")


# The API without a response, the call, and the error that the call raises.
CALLS: dict[str, tuple[ApiKey, Callable[[Producer], Awaitable[object]], type[KafkaError]]] = {
    "commit": (ApiKey.END_TXN, Producer.commit_transaction, CommitOutcomeUnknown),
    "abort": (ApiKey.END_TXN, Producer.abort_transaction, TimedOutError),
    "offsets": (ApiKey.TXN_OFFSET_COMMIT, offsets, AbortableError),
    "hand over": (ApiKey.PRODUCE, Producer.hand_over_transaction, TimedOutError),
    "coordinator": (ApiKey.FIND_COORDINATOR, offsets, AbortableError),
}


async def took_ms(call: Awaitable[object]) -> tuple[float, KafkaError]:
    """Return the time (ms) until the call failed, and its error."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(KafkaError) as failed:
        await call
    return (loop.time() - began) * 1000, failed.value


def in_a_transaction(
    broker: ScriptedBroker, unanswered: Script, call: Callable[[Producer], Awaitable[object]]
) -> tuple[float, KafkaError]:
    """Return the time (ms) until `call` failed, and its error. The call is made in a transaction
    with a record. The script `unanswered` handles all requests of the transaction."""

    async def scenario() -> tuple[float, KafkaError]:
        producer = Producer(
            SERVER,
            transactional_id="x",
            linger_ms=0,
            retry_backoff_max_ms=100,
            max_block_ms=MAX_BLOCK_MS,
            request_timeout_ms=10_000,
            delivery_timeout_ms=30_000,
        )
        await producer.start()
        await producer.init_transactions()
        await producer.begin_transaction()
        broker.script = unanswered
        await producer.send(TOPIC, b"v")
        # A simulated wait of 20 round trips. The requests are in flight afterwards.
        await asyncio.sleep(0.01)
        outcome = await took_ms(call(producer))
        await producer.close(timeout_ms=0)
        return outcome

    return simulated(broker, scenario)


def slow_at(broker: ScriptedBroker, lost: ApiKey) -> Script:
    """Return a script that drops the responses to `lost`. Until WRITTEN_AT_S, Produce gets
    NOT_ENOUGH_REPLICAS."""

    def script(api: ApiKey, request: Any) -> Any:
        if api is lost:
            return DROP
        if api is ApiKey.PRODUCE and asyncio.get_running_loop().time() < WRITTEN_AT_S:
            return broker.respond(api, 12, request, ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    return script


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_max_block_ms_as_a_whole(name: str) -> None:
    """A former defect: a commit took max_block_ms for its records, again max_block_ms for EndTxn,
    and then a request timeout."""
    lost, call, kind = CALLS[name]
    broker = ScriptedBroker()
    took, error = in_a_transaction(broker, slow_at(broker, lost), call)
    assert took <= MAX_BLOCK_MS + 1
    assert type(error) is kind, error


def test_initialization_takes_max_block_ms() -> None:
    broker = ScriptedBroker(lambda api, _: DROP if api is ApiKey.INIT_PRODUCER_ID else None)

    async def scenario() -> float:
        producer = Producer(
            SERVER, transactional_id="x", max_block_ms=MAX_BLOCK_MS, request_timeout_ms=10_000
        )
        await producer.start()
        took, error = await took_ms(producer.init_transactions())
        assert isinstance(error, TimedOutError)
        await producer.close(timeout_ms=0)
        return took

    assert simulated(broker, scenario) <= MAX_BLOCK_MS + 1


def test_a_commit_without_a_response_to_end_txn_can_be_repeated() -> None:
    """After the first call the outcome is unknown. A second call commits the transaction."""
    broker = ScriptedBroker()
    lost = slow_at(broker, ApiKey.END_TXN)

    async def twice(producer: Producer) -> None:
        with pytest.raises(CommitOutcomeUnknown):
            await producer.commit_transaction()
        broker.script = lambda api, request: None
        await producer.commit_transaction()
        raise KafkaError("committed")

    _, error = in_a_transaction(broker, lost, twice)
    assert error.message == "committed"
