"""Raw requests to oncelog and Kafka, in transactions that exceed their timeout."""

from __future__ import annotations

import time

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.conformance.conftest import Target
from tests.conformance.differences import COMMIT_AFTER_ABORT
from tests.harness.driving import values
from tests.harness.transacting import last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)

TIMEOUT_MS = 500
SCAN_MS = int(QUICK["transaction.abort.timed.out.transaction.cleanup.interval.ms"])
# Maximum delay, on a busy computer, of the coordinator's scan for transactions past their timeout.
SLACK_MS = 4_000
# A response comes within this time, unless the computer pauses.
ANSWER_MS = 100


class Watch:
    """A stopwatch. `running_ms` excludes most pauses of the computer: the time between two calls of
    `look` counts as at most the longest time of a response."""

    def __init__(self) -> None:
        self._began = self._looked = time.monotonic()
        self.running_ms = 0.0

    @property
    def passed_ms(self) -> float:
        """Return the time since the start, plus 1 ms, because brokers count whole ms."""
        return (time.monotonic() - self._began) * 1000 + 1

    def look(self) -> None:
        """Add the time since the last call, at most ANSWER_MS, to `running_ms`. A test calls this
        method between any two requests."""
        now = time.monotonic()
        self.running_ms += min((now - self._looked) * 1000, ANSWER_MS)
        self._looked = now


def is_over(wire: Wire, topic: str) -> bool:
    """Return True if no transaction is open in the partition."""
    stable, end = last_stable_offset(wire, topic)
    return stable == end


def test_t1_the_scan_after_the_timeout_aborts_the_transaction_of_a_silent_client(
    target: Target, wire: Wire, topic: str
) -> None:
    producer = new_identity(wire, topic, timeout_ms=TIMEOUT_MS)
    watch = Watch()
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE

    def aborted() -> bool:
        watch.look()
        return last_stable_offset(wire, topic) == (2, 2)

    wait_until(aborted, "the abort marker")
    assert watch.passed_ms >= TIMEOUT_MS
    assert watch.running_ms <= TIMEOUT_MS + SCAN_MS + SLACK_MS
    late = produce(wire, topic, batch(producer, 1), producer=producer)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    refused = end_transaction(wire, producer, commit=True)
    assert ErrorCode(refused.error_code).name == COMMIT_AFTER_ABORT.expected(target.name)
    assert values(wire, topic) == []


def test_t6_activity_does_not_extend_the_timeout_of_a_transaction(wire: Wire, topic: str) -> None:
    end = 0

    def written_until_it_was_aborted() -> int:
        """Write batches until the transaction is aborted, and return their number."""
        nonlocal end
        producer = new_identity(wire, topic, timeout_ms=TIMEOUT_MS)
        watch, sequence = Watch(), 0
        while (
            produce(wire, topic, batch(producer, sequence), producer=producer).error_code
            == ErrorCode.NONE
        ):
            sequence += 1
            watch.look()
            assert watch.running_ms <= TIMEOUT_MS + SCAN_MS + SLACK_MS
        assert watch.passed_ms >= TIMEOUT_MS
        wait_until(lambda: is_over(wire, topic), "the abort marker")
        end += sequence + 1
        assert last_stable_offset(wire, topic) == (end, end)
        return sequence

    # After a pause of the computer, the transaction may be aborted after one batch. Try another
    # transaction then.
    wait_until(lambda: written_until_it_was_aborted() > 1, "a transaction with activity")
    assert values(wire, topic) == []


def test_t10_a_timeout_shorter_than_the_commit_reports_the_outcome(wire: Wire, topic: str) -> None:
    """Either the commit or the timeout takes effect. The producer's response agrees with the
    records of readers."""
    expected = []
    for number in range(40):
        producer = new_identity(wire, topic, timeout_ms=1)
        value = b"%d" % number
        # Every eighth transaction leaves time for a scan between the record and the EndTxn.
        written = produce(wire, topic, batch(producer, 0, value=value), producer=producer)
        assert written.error_code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
        if number % 8 == 7:
            wait_until(lambda: is_over(wire, topic), "an abort")
        if end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE:
            expected.append(value)
    wait_until(lambda: is_over(wire, topic), "everything is decided")
    assert values(wire, topic) == expected
    assert 0 < len(expected) <= 35


def test_t7_a_new_instance_gets_concurrent_transactions_until_the_abort_completes(
    wire: Wire, topic: str
) -> None:
    producer = new_identity(wire, topic)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    first = init_producer_id(wire, topic)
    assert first.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert first.error_code in BUSY
    new = new_identity(wire, topic)
    assert new.producer_epoch > producer.producer_epoch
    assert last_stable_offset(wire, topic) == (2, 2)


@pytest.mark.parametrize("committed", [True, False])
def test_t1_the_scan_does_not_abort_a_transaction_that_ended_in_time(
    wire: Wire, topic: str, committed: bool
) -> None:
    late = 0

    def ended_in_time() -> bool:
        """Write and end a transaction, and return True. Return False if the computer paused and the
        transaction was aborted before its end."""
        nonlocal late
        producer, watch = new_identity(wire, topic, timeout_ms=TIMEOUT_MS), Watch()
        written = produce(wire, topic, batch(producer, 0), producer=producer)
        ended = end_transaction(wire, producer, commit=committed)
        if written.error_code == ended.error_code == ErrorCode.NONE:
            return True
        assert watch.passed_ms >= TIMEOUT_MS
        late += 1
        return False

    wait_until(ended_in_time, "a transaction that is ended in time")
    wait_until(lambda: is_over(wire, topic), "the marker")
    ended = last_stable_offset(wire, topic)
    assert late or ended == (2, 2)
    # When the scan has aborted a later transaction with the same timeout, it has passed the first
    # one, too.
    other = new_identity(wire, f"{topic}-other", timeout_ms=TIMEOUT_MS)
    assert produce(wire, topic, batch(other, 0), producer=other).error_code == ErrorCode.NONE
    expected = (ended[0] + 2, ended[1] + 2)
    wait_until(lambda: last_stable_offset(wire, topic) == expected, "the abort marker")
    assert len(values(wire, topic)) == int(committed)
