"""The next transaction of a producer waits for a short time while the one before it completes
(KIP-890; Kafka's add.partitions.to.txn.retry.backoff settings)."""

from __future__ import annotations

from typing import TypeVar

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.producing.adding_retry import AddingRetry
from oncelog_server.producing.large import LargeProduce
from oncelog_server.producing.produce import PartitionAppend, transactional_of
from oncelog_server.refusal import Refused
from oncelog_server.slices import Steps
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult
from tests.server.partition.partitions import mark
from tests.server.producing.appends import append_of
from tests.server.producing.driver import NONE, Broker, codes, transactional

T = TypeVar("T")

BACKOFF_MS, MAX_MS, MOVING_MS = 20, 100, 1_000
MOVING = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
]
EPOCH = 1


def retrying() -> Broker:
    """Return a broker with a coordinator that still completes the last transaction."""
    broker = Broker(answer=BUSY)
    broker.adding_retry = AddingRetry(lambda: broker.timers.now_ms, BACKOFF_MS, MAX_MS, MOVING_MS)
    return broker


def produce(broker: Broker) -> tuple[list[PartitionAppend], Deferred[None]]:
    appends, later = broker.produce(transactional(epoch=EPOCH))
    assert later is not None
    assert not later.done
    return appends, later


def pending() -> Deferred[TransactionResult]:
    return Deferred()


def test_the_batch_is_appended_when_the_last_transaction_is_complete() -> None:
    broker = retrying()
    appends, later = produce(broker)
    broker.timers.advance(BACKOFF_MS)
    assert not later.done
    broker.answer = SUCCESS
    broker.timers.advance(BACKOFF_MS)
    assert later.done
    assert codes(appends) == [NONE]
    assert (len(broker.asked), broker.ends[0]) == (3, 1)
    assert not broker.timers.waiting


def test_markers_of_the_last_transaction_may_come_between_the_attempts() -> None:
    """Markers end guards (R12), so an attempt after a marker needs another guard."""
    broker = retrying()
    first, second = pending(), pending()
    broker.answer = first
    appends, later = produce(broker)
    broker.answer = second
    first.complete(BUSY)
    mark(broker.partitions[0], 7, epoch=EPOCH)
    broker.timers.advance(BACKOFF_MS)
    second.complete(SUCCESS)
    assert later.done
    assert codes(appends) == [NONE]


def test_an_attempt_with_an_immediate_result_needs_no_guard() -> None:
    """The coordinator has moved to this broker."""
    broker = retrying()
    broker.answer = first = pending()
    appends, later = produce(broker)
    first.complete(BUSY)
    broker.answer = SUCCESS
    broker.timers.advance(BACKOFF_MS)
    assert later.done
    assert codes(appends) == [NONE]


def test_a_marker_during_an_attempt_still_refuses_the_batch() -> None:
    broker = retrying()
    appends, later = produce(broker)
    second = pending()
    broker.answer = second
    broker.timers.advance(BACKOFF_MS)
    mark(broker.partitions[0], 7, epoch=EPOCH)
    second.complete(SUCCESS)
    assert later.done
    assert codes(appends) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_the_bytes_outlive_the_buffer_of_the_connection() -> None:
    broker = retrying()
    buffer = transactional(epoch=EPOCH)
    _, later = broker.produce(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    broker.answer = SUCCESS
    broker.timers.advance(BACKOFF_MS)
    assert later is not None
    assert later.done
    assert broker.ends[0] == 1


def test_after_the_time_limit_the_client_gets_the_error() -> None:
    broker = retrying()
    appends, later = produce(broker)
    broker.timers.advance(MAX_MS - 1)
    assert not later.done
    broker.timers.advance(1)
    assert later.done
    assert codes(appends) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert not broker.timers.waiting


@pytest.mark.parametrize("code", MOVING)
def test_the_batch_waits_while_the_coordinator_moves(code: ErrorCode) -> None:
    broker = retrying()
    broker.answer = Refused(code)
    appends, later = produce(broker)
    broker.timers.advance(MOVING_MS - 1)
    assert not later.done
    assert len(broker.asked) == 6, "after 0, 20, 60, 140, 300 and 620 ms"
    broker.answer = SUCCESS
    broker.timers.advance(MOVING_MS)
    assert later.done
    assert codes(appends) == [NONE]


@pytest.mark.parametrize("code", MOVING)
def test_a_coordinator_that_stays_away_is_no_error_of_the_transaction(code: ErrorCode) -> None:
    broker = retrying()
    broker.answer = TransactionResult(code)
    appends, later = produce(broker)
    broker.timers.advance(2 * MOVING_MS)
    assert later.done
    assert codes(appends) == [ErrorCode.NOT_ENOUGH_REPLICAS]


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE])
def test_no_other_error_is_retried(code: ErrorCode) -> None:
    broker = retrying()
    broker.answer = TransactionResult(code)
    _, later = broker.produce(transactional())
    assert later is None
    assert len(broker.asked) == 1


def test_a_verification_is_not_retried() -> None:
    """A client that adds partitions itself has waited for its last transaction before."""
    broker = retrying()
    appends, later = broker.produce(transactional(), adds_partitions=False)
    assert later is None
    assert codes(appends) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def run(steps: Steps[T]) -> T:
    """Run all steps. Return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def test_the_parts_of_a_large_request_wait_too() -> None:
    """The whole request first asks the coordinator. Each part then retries by itself."""
    broker = retrying()
    appends = [
        append_of(index, transactional(epoch=EPOCH), partition)
        for index, partition in enumerate(broker.partitions)
    ]
    large = LargeProduce(appends, transactional_of(appends), broker.part)
    result = run(large.ask())
    assert result is BUSY
    waits = run(large.append(result))
    assert codes(appends) == [NONE] * 3
    broker.answer = SUCCESS
    broker.timers.advance(BACKOFF_MS)
    assert all(wait.done for wait in waits)
    assert codes(appends) == [NONE] * 3
    assert broker.ends == [1, 1, 1]


def test_a_large_request_is_refused_by_any_other_error() -> None:
    broker = retrying()
    broker.answer = TransactionResult(ErrorCode.PRODUCER_FENCED)
    appends = [append_of(0, transactional(epoch=EPOCH), broker.partitions[0])]
    large = LargeProduce(appends, transactional_of(appends), broker.part)
    result = run(large.ask())
    assert isinstance(result, TransactionResult)
    assert run(large.append(result)) == []
    assert codes(appends) == [ErrorCode.INVALID_PRODUCER_EPOCH]
