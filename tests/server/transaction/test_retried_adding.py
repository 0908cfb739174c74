"""The next transaction of a producer waits for a short time while the one before it completes
(KIP-890; Kafka's add.partitions.to.txn.retry.backoff settings)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec.structs
import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult
from oncelog_server.transaction.retried_adding import RetriedAdding
from tests.server.manual_timers import ManualTimers

COMMAND = AddPartitions("id", 7, 0, frozenset({TopicPartition("a", 0)}), 2)
BACKOFF_MS, MAX_MS = 20, 100

Result = TransactionResult | Deferred[TransactionResult] | Refused


class Coordinator:
    """Gives these results one after the other, and the last one repeatedly."""

    def __init__(self, *results: Result) -> None:
        self.timers = ManualTimers()
        self.times_ms: list[int] = []
        self._results: Sequence[Result] = results
        self.adding = RetriedAdding(
            self._add, self.timers, lambda: self.timers.now_ms, BACKOFF_MS, MAX_MS
        )

    def _add(self, command: AddPartitions) -> TransactionResult | Deferred[TransactionResult]:
        result = self._results[min(len(self.times_ms), len(self._results) - 1)]
        self.times_ms.append(self.timers.now_ms)
        if isinstance(result, Refused):
            raise result
        return result

    def pending(self) -> Deferred[TransactionResult]:
        result = self.adding(COMMAND)
        assert isinstance(result, Deferred)
        assert not result.done
        return result


@pytest.mark.parametrize("result", [SUCCESS, TransactionResult(ErrorCode.PRODUCER_FENCED)])
def test_any_other_result_is_given_at_once(result: TransactionResult) -> None:
    coordinator = Coordinator(result)
    assert coordinator.adding(COMMAND) is result
    assert not coordinator.timers.waiting


def test_a_verification_is_not_retried() -> None:
    coordinator = Coordinator(BUSY)
    assert coordinator.adding(msgspec.structs.replace(COMMAND, verify_only=True)) is BUSY
    assert coordinator.times_ms == [0]


def test_a_partition_is_added_when_the_last_transaction_is_complete() -> None:
    coordinator = Coordinator(BUSY, BUSY, SUCCESS)
    pending = coordinator.pending()
    coordinator.timers.advance(2 * BACKOFF_MS - 1)
    assert not pending.done
    coordinator.timers.advance(1)
    assert pending.value is SUCCESS
    assert coordinator.times_ms == [0, BACKOFF_MS, 2 * BACKOFF_MS]
    assert not coordinator.timers.waiting


def test_after_the_time_limit_the_client_learns_that_a_transaction_is_in_progress() -> None:
    coordinator = Coordinator(BUSY)
    pending = coordinator.pending()
    coordinator.timers.advance(MAX_MS)
    assert pending.value is BUSY
    assert coordinator.times_ms[-1] == MAX_MS
    assert not coordinator.timers.waiting


def test_the_results_of_another_broker_are_retried_too() -> None:
    first: Deferred[TransactionResult] = Deferred()
    second: Deferred[TransactionResult] = Deferred()
    coordinator = Coordinator(first, second)
    pending = coordinator.pending()
    first.complete(BUSY)
    coordinator.timers.advance(BACKOFF_MS)
    assert not pending.done
    second.complete(SUCCESS)
    assert pending.value is SUCCESS


def test_a_coordinator_that_has_moved_meanwhile_ends_the_attempts() -> None:
    coordinator = Coordinator(BUSY, Refused(ErrorCode.NOT_COORDINATOR, "moved"))
    pending = coordinator.pending()
    coordinator.timers.advance(BACKOFF_MS)
    assert pending.value == TransactionResult(ErrorCode.NOT_COORDINATOR, message="moved")


def test_a_failure_of_the_other_broker_reaches_the_request() -> None:
    first: Deferred[TransactionResult] = Deferred()
    pending = Coordinator(first).pending()
    failure = RuntimeError("lost")
    pending.on_abandon(lambda: None)
    first.abandon(failure)
    assert pending.abandoned
    assert pending.failure is failure


def test_nothing_is_retried_for_a_client_that_has_hung_up() -> None:
    coordinator = Coordinator(BUSY)
    coordinator.pending().cancel()
    assert not coordinator.timers.waiting
