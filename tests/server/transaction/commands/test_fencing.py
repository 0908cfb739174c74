"""Overdue transactions are aborted. The timeout counts from the moment when the transaction gets
its first partition. A coordinator counts in monotonic time. After a restart, the wall clock shows
how much of the timeout has passed."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1, Driver


def begun() -> tuple[Driver, tuple[int, int]]:
    driver = Driver()
    result = driver.init(timeout_ms=10_000).value
    driver.add(result.producer_id, result.producer_epoch, P0)
    return driver, (result.producer_id, result.producer_epoch)


def test_T1_T6_activity_does_not_move_the_deadline() -> None:
    driver, producer = begun()
    driver.now_ms += 9_999
    driver.add(*producer, P1)
    assert driver.abort_overdue() == []
    driver.now_ms += 1
    assert driver.abort_overdue() == [ID]
    assert driver.state is State.COMPLETE_ABORT
    assert driver.abort_overdue() == []
    assert driver.live.deadline_ms is None


def test_M15_the_abort_bumps_the_epoch_and_its_markers_have_the_new_epoch() -> None:
    driver, (producer_id, epoch) = begun()
    driver.now_ms += 10_000
    driver.abort_overdue()
    assert driver.metadata.producer_epoch == epoch + 1
    assert {work.producer_epoch for work, _ in driver.markers} == {epoch + 1}
    code = driver.add(producer_id, epoch, P0).value.code
    assert code is ErrorCode.PRODUCER_FENCED


def test_T6_M13_activity_before_a_restart_does_not_move_the_deadline() -> None:
    driver, producer = begun()
    driver.now_ms += 9_000
    driver.add(*producer, P1)
    driver.crash()
    driver.now_ms += 1_000
    assert driver.abort_overdue() == [ID]


@pytest.mark.parametrize("lives", [1, 5])
def test_T5_M14_a_restart_does_not_move_the_deadline(lives: int) -> None:
    driver, _ = begun()
    for _ in range(lives):
        driver.now_ms += 4_000 // lives
        driver.crash(down_ms=4_000 // lives)
    driver.now_ms += 1_999
    assert driver.abort_overdue() == []
    driver.now_ms += 1
    assert driver.abort_overdue() == [ID]


def test_a_restart_after_the_deadline_aborts_at_the_first_scan() -> None:
    driver, _ = begun()
    driver.crash(down_ms=1_000_000)
    assert driver.abort_overdue() == [ID]


def test_T3_a_transaction_with_a_pending_decision_is_not_aborted() -> None:
    driver, producer = begun()
    driver.holds_commits = True
    response = driver.end(*producer, True)
    driver.now_ms += 60_000
    assert driver.abort_overdue() == []
    driver.release()
    driver.release()
    assert response.value.code is ErrorCode.NONE
    assert {work.committed for work, _ in driver.markers} == {True}


def test_an_abort_that_cannot_be_written_is_retried_at_the_next_scan_with_the_same_epoch() -> None:
    driver, (_, epoch) = begun()
    driver.now_ms += 10_000
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(10):
        assert driver.abort_overdue() == [ID]
    driver.append_error = None
    driver.abort_overdue()
    assert driver.metadata.producer_epoch == epoch + 1


def test_one_scan_returns_at_most_the_given_number_of_transactions() -> None:
    driver = Driver()
    for number in range(5):
        name = f"t{number}"
        result = driver.init(timeout_ms=1_000, transactional_id=name).value
        driver.add(result.producer_id, 0, P0, transactional_id=name)
    driver.now_ms += 1_000
    assert driver.shard.overdue(driver.now_ms, 3) == ["t0", "t1", "t2"]
