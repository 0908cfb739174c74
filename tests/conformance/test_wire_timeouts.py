"""Transactions that take too long, by hand, on oncelog and on Kafka."""

from __future__ import annotations

import time

import pytest

from oncelog_protocol.errors import ErrorCode
from tests.conformance.conftest import QUICK, Target
from tests.conformance.differences import COMMIT_AFTER_ABORT
from tests.conformance.transacting import last_stable_offset
from tests.conformance.waiting import wait_until
from tests.conformance.wire import Wire
from tests.conformance.writing import (
    BUSY,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)
from tests.faults.driving import values

SCAN_MS = int(QUICK["transaction.abort.timed.out.transaction.cleanup.interval.ms"])
# What a scan may come later than it should, on a machine that has much to do.
SLACK_MS = 4_000


def now_ms() -> float:
    return time.monotonic() * 1000


def test_t1_a_silent_client_is_aborted_between_its_time_out_and_one_scan_later(
    target: Target, wire: Wire, topic: str
) -> None:
    who = new_identity(wire, topic, timeout_ms=500)
    began = now_ms()
    assert produce(wire, topic, batch(who, 0), who=who).error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    assert 500 <= now_ms() - began <= 500 + SCAN_MS + SLACK_MS
    late = produce(wire, topic, batch(who, 1), who=who)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    refused = end_transaction(wire, who, commit=True)
    assert ErrorCode(refused.error_code).name == COMMIT_AFTER_ABORT.expected(target.name)
    assert values(wire, topic) == []


def test_t6_activity_does_not_keep_a_transaction_alive(wire: Wire, topic: str) -> None:
    who = new_identity(wire, topic, timeout_ms=500)
    began, sequence = now_ms(), 0
    while produce(wire, topic, batch(who, sequence), who=who).error_code == ErrorCode.NONE:
        sequence += 1
        assert now_ms() - began <= 500 + SCAN_MS + SLACK_MS
    assert sequence > 1
    assert now_ms() - began >= 500
    wait_until(lambda: last_stable_offset(wire, topic)[0] == sequence + 1, "the abort marker")
    assert values(wire, topic) == []


def test_t10_a_time_out_shorter_than_the_commit_is_told_as_it_ended(wire: Wire, topic: str) -> None:
    """Whoever wins the race: what the producer is told is what readers see."""
    expected = []
    for number in range(40):
        who = new_identity(wire, topic, timeout_ms=1)
        value = b"%d" % number
        # Now and then the scan has its chance between the record and the end.
        written = produce(wire, topic, batch(who, 0, value=value), who=who)
        assert written.error_code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
        if number % 8 == 7:
            wait_until(lambda: len(set(last_stable_offset(wire, topic))) == 1, "an abort")
        if end_transaction(wire, who, commit=True).error_code == ErrorCode.NONE:
            expected.append(value)
    wait_until(
        lambda: last_stable_offset(wire, topic)[0] == last_stable_offset(wire, topic)[1],
        "everything is decided",
    )
    assert values(wire, topic) == expected
    assert 0 < len(expected) <= 35


def test_t7_while_an_abort_is_under_way_a_newcomer_is_told_to_come_back(
    wire: Wire, topic: str
) -> None:
    who = new_identity(wire, topic)
    assert produce(wire, topic, batch(who, 0), who=who).error_code == ErrorCode.NONE
    first = init_producer_id(wire, topic)
    assert first.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert first.error_code in BUSY
    new = new_identity(wire, topic)
    assert new.producer_epoch > who.producer_epoch
    assert last_stable_offset(wire, topic) == (2, 2)


@pytest.mark.parametrize("committed", [True, False])
def test_t1_a_transaction_ended_in_time_is_left_alone_by_the_scan(
    wire: Wire, topic: str, committed: bool
) -> None:
    who = new_identity(wire, topic, timeout_ms=300)
    assert produce(wire, topic, batch(who, 0), who=who).error_code == ErrorCode.NONE
    assert end_transaction(wire, who, commit=committed).error_code == ErrorCode.NONE
    # Another one of the same time-out, begun later, is aborted: the scan has been here.
    other = new_identity(wire, f"{topic}-other", timeout_ms=300)
    assert produce(wire, topic, batch(other, 0), who=other).error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (4, 4), "the abort marker")
    assert len(values(wire, topic)) == int(committed)
