"""Transactions of producers in two-phase commit (KIP-939). The transactions have no timeout. If a
new instance keeps a transaction prepared, the markers have the original producer id."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, NO_TIMEOUT_MS
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1, Driver

OK, FENCED, BUSY = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
LAST = LAST_PRODUCER_EPOCH
DAY_MS = 86_400_000


def ids(result: TransactionResult) -> tuple[int, int]:
    assert result.code is OK
    return result.producer_id, result.producer_epoch


def ongoing(result: TransactionResult) -> tuple[int, int]:
    return result.ongoing_producer_id, result.ongoing_producer_epoch


def opened(driver: Driver, *, two_phase: bool = True) -> tuple[int, int]:
    """Return a producer with a transaction over two partitions."""
    producer = ids(driver.init(two_phase=two_phase).value)
    driver.add(*producer, P0, P1)
    assert driver.state is State.ONGOING
    return producer


def marked(driver: Driver) -> set[tuple[int, int, bool]]:
    return {(work.producer_id, work.producer_epoch, work.committed) for work, _ in driver.markers}


def test_w1_a_two_phase_transaction_outlives_timeouts_and_coordinators() -> None:
    driver = Driver()
    producer = opened(driver)
    for _ in range(3):
        driver.now_ms += 30 * DAY_MS
        assert driver.abort_overdue() == []
        driver.crash(down_ms=30 * DAY_MS)
        assert driver.abort_overdue() == []
    assert driver.state is State.ONGOING
    assert driver.end(*producer, committed=True).value.code is OK
    assert marked(driver) == {(producer[0], producer[1] + 1, True)}


@pytest.mark.parametrize("timeout_ms", [1, -1, 0, 900_001, NO_TIMEOUT_MS])
def test_w1_the_timeout_of_a_two_phase_request_has_no_effect(timeout_ms: int) -> None:
    driver = Driver()
    assert driver.init(two_phase=True, timeout_ms=timeout_ms).value.code is OK
    assert driver.metadata.is_two_phase


def test_w1_the_next_instance_need_not_use_two_phase_commit() -> None:
    driver = Driver()
    driver.init(two_phase=True)
    producer = ids(driver.init(timeout_ms=1_000).value)
    driver.add(*producer, P0)
    driver.now_ms += 1_000
    assert driver.abort_overdue() == [ID]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("restart", [False, True], ids=["live", "after a restart"])
def test_w2_a_new_instance_ends_the_transaction_of_the_old_one(
    committed: bool, restart: bool
) -> None:
    driver = Driver()
    old = opened(driver)
    kept = driver.init(two_phase=True, keep=True).value
    new = ids(kept)
    assert new == (old[0], old[1] + 1)
    assert ongoing(kept) == old
    if restart:
        driver.crash()
    ended = driver.end(*new, committed=committed).value
    assert ids(ended) == (old[0], old[1] + 2)
    assert marked(driver) == {(old[0], old[1] + 1, committed)}
    assert {partition for _, partition in driver.markers} == {P0, P1}
    assert driver.end(*new, committed=committed).value == ended, "a retry gets the same response"
    driver.crash()
    assert driver.end(*new, committed=committed).value == ended, (
        "a retry after a crash gets the same response"
    )
    assert driver.add(*ids(ended), P0).value.code is OK


def test_w2_the_old_instance_is_fenced() -> None:
    driver = Driver()
    old = opened(driver)
    new = ids(driver.init(two_phase=True, keep=True).value)
    assert driver.add(*old, P0).value.code is FENCED
    assert driver.add(*old, P0, verify_only=True).value.code is FENCED
    assert driver.end(*old, committed=True).value.code is FENCED
    assert driver.end(*old, committed=True, bumps_epoch=False).value.code is FENCED
    assert driver.init(*old).value.code is FENCED
    assert driver.init(*old, keep=True, two_phase=True).value.code is FENCED
    assert driver.state is State.ONGOING
    assert driver.end(*new, committed=True).value.code is OK


def test_w2_a_kept_transaction_can_only_be_ended() -> None:
    driver = Driver()
    opened(driver)
    new = ids(driver.init(two_phase=True, keep=True).value)
    for verify_only in (False, True):
        response = driver.add(*new, P0, verify_only=verify_only)
        assert response.value.code is ErrorCode.INVALID_TXN_STATE


def test_w2_each_of_many_instances_fences_the_instance_before() -> None:
    driver = Driver()
    first = opened(driver)
    before = first
    for _ in range(5):
        kept = driver.init(two_phase=True, keep=True).value
        assert ongoing(kept) == first
        assert driver.end(*before, committed=False).value.code is FENCED
        before = ids(kept)
    assert before == (first[0], first[1] + 5)
    assert ids(driver.end(*before, committed=True).value) == (first[0], first[1] + 6)
    assert marked(driver) == {(first[0], first[1] + 1, True)}


def test_w2_a_retry_after_a_lost_response_gets_the_same_response() -> None:
    driver = Driver()
    producer = opened(driver)
    kept = driver.init(*producer, two_phase=True, keep=True).value
    assert ids(kept) == (producer[0], producer[1] + 1)
    assert driver.init(*producer, two_phase=True, keep=True).value == kept
    driver.crash()
    assert driver.init(*producer, two_phase=True, keep=True).value == kept


def test_w2_keep_prepared_with_an_older_epoch_is_fenced() -> None:
    driver = Driver()
    first = ids(driver.init(two_phase=True).value)
    current = ids(driver.init(*first, two_phase=True).value)
    driver.add(*current, P0)
    assert driver.init(*first, two_phase=True, keep=True).value.code is FENCED
    assert not driver.metadata.is_kept


def test_w2_a_producer_that_ends_without_a_bump_continues_with_its_epoch() -> None:
    """The response of EndTxn up to v4 has no new epoch."""
    driver = Driver()
    old = opened(driver)
    new = ids(driver.init(two_phase=True, keep=True).value)
    for _ in range(2):
        assert driver.end(*new, committed=True, bumps_epoch=False).value.code is OK
    assert marked(driver) == {(old[0], old[1] + 1, True)}
    assert driver.add(*new, P0).value.code is OK


def test_w2_keep_prepared_without_an_open_transaction_only_bumps_the_epoch() -> None:
    driver = Driver()
    first = driver.init(two_phase=True, keep=True).value
    assert ids(first) == (1_000, 0)
    assert ongoing(first) == (-1, -1)
    driver.add(1_000, 0, P0)
    ended = ids(driver.end(1_000, 0, committed=True).value)
    again = driver.init(two_phase=True, keep=True).value
    assert ids(again) == (1_000, ended[1] + 1)
    assert ongoing(again) == (-1, -1)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_w2_keep_prepared_is_refused_until_a_decided_transaction_is_completed(state: State) -> None:
    driver = Driver(finishes=False)
    driver.put(state)
    assert driver.init(two_phase=True, keep=True).value.code is BUSY


def test_w2_a_keep_prepared_that_cannot_be_written_changes_nothing() -> None:
    driver = Driver()
    producer = opened(driver)
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    code = driver.init(two_phase=True, keep=True).value.code
    assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.append_error = None
    assert driver.end(*producer, committed=True).value.code is OK


def test_w2_a_two_phase_transaction_still_has_no_timeout_after_it_is_kept() -> None:
    driver = Driver()
    opened(driver)
    driver.init(timeout_ms=1_000, keep=True)
    driver.now_ms += DAY_MS
    assert driver.abort_overdue() == []


def test_w2_an_ordinary_transaction_can_be_kept_until_its_timeout() -> None:
    driver = Driver()
    old = opened(driver, two_phase=False)
    new = ids(driver.init(keep=True, timeout_ms=90_000).value)
    driver.now_ms += 89_999
    assert driver.abort_overdue() == []
    driver.now_ms += 1
    assert driver.abort_overdue() == [ID]
    assert marked(driver) == {(old[0], old[1] + 1, False)}
    assert driver.end(*new, committed=True).value.code is FENCED
    assert ids(driver.init(*new).value) == (old[0], new[1] + 1), (
        "the keeper may continue with the next epoch"
    )


def test_w2_an_ordinary_transaction_kept_as_two_phase_loses_its_timeout() -> None:
    driver = Driver()
    opened(driver, two_phase=False)
    driver.init(two_phase=True, keep=True)
    driver.now_ms += DAY_MS
    assert driver.abort_overdue() == []
    driver.crash()
    assert driver.abort_overdue() == []


@pytest.mark.parametrize("kept_before", [False, True])
def test_w3_init_producer_id_without_keep_prepared_aborts_the_transaction(
    kept_before: bool,
) -> None:
    driver = Driver()
    old = opened(driver)
    last = ids(driver.init(two_phase=True, keep=True).value) if kept_before else old
    assert driver.init(two_phase=True).value.code is BUSY
    assert driver.state is State.COMPLETE_ABORT
    assert marked(driver) == {(old[0], old[1] + 1, False)}
    for former in {old, last}:
        assert driver.end(*former, committed=True).value.code is FENCED
        assert driver.init(*former).value.code is FENCED
        assert driver.add(*former, P0).value.code is FENCED
    new = driver.init(two_phase=True).value
    assert ids(new) == (old[0], last[1] + 2)
    assert ongoing(new) == (-1, -1)


@pytest.mark.parametrize("restart", [False, True], ids=["live", "after a restart"])
def test_w5_keep_prepared_at_the_last_epoch_assigns_a_new_producer_id(restart: bool) -> None:
    """The example of KIP-939, record by record."""
    driver = Driver()
    driver.put(State.EMPTY, producer_id=42, producer_epoch=LAST - 1, timeout_ms=NO_TIMEOUT_MS)
    assert ids(driver.init(two_phase=True).value) == (42, LAST)
    driver.add(42, LAST, P0)
    kept = driver.init(two_phase=True, keep=True).value
    assert ids(kept) == (1_000, 0)
    assert ongoing(kept) == (42, LAST)
    assert driver.metadata.producer_id == 42
    assert driver.metadata.next_producer_epoch == 0
    if restart:
        driver.crash()
    driver.finishes = False
    ended = driver.end(1_000, 0, committed=True)
    prepared = driver.metadata
    assert prepared.state is State.PREPARE_COMMIT
    assert (prepared.producer_id, prepared.producer_epoch) == (42, LAST + 1)
    assert (prepared.next_producer_id, prepared.next_producer_epoch) == (1_000, 1)
    assert prepared.previous_producer_id == 1_000
    if restart:
        driver.crash()
    driver.finish(ID)
    assert marked(driver) == {(42, LAST + 1, True)}
    if not restart:
        assert ids(ended.value) == (1_000, 1)
    assert ids(driver.end(1_000, 0, committed=True).value) == (1_000, 1)
    assert driver.end(42, LAST, committed=True).value.code is not OK
    assert driver.add(1_000, 1, P0).value.code is OK


def test_w5_a_transaction_can_run_out_of_epochs_twice() -> None:
    driver = Driver()
    driver.put(
        State.ONGOING,
        producer_id=42,
        producer_epoch=100,
        next_producer_id=73,
        next_producer_epoch=LAST,
        timeout_ms=NO_TIMEOUT_MS,
    )
    assert ids(driver.end(73, LAST, committed=False).value) == (1_000, 0)
    assert marked(driver) == {(42, 101, False)}
    driver.crash()
    assert ids(driver.end(73, LAST, committed=False).value) == (1_000, 0)


def test_w5_a_producer_may_repeat_keep_prepared_at_the_last_epoch() -> None:
    driver = Driver()
    driver.put(State.ONGOING, producer_id=42, producer_epoch=LAST, timeout_ms=NO_TIMEOUT_MS)
    kept = driver.init(42, LAST, two_phase=True, keep=True).value
    assert ids(kept) == (1_000, 0)
    driver.crash()
    assert driver.init(42, LAST, two_phase=True, keep=True).value == kept


def test_w3_w5_a_transaction_kept_at_the_last_epoch_can_be_aborted() -> None:
    driver = Driver()
    driver.put(
        State.ONGOING,
        producer_id=42,
        producer_epoch=100,
        next_producer_id=73,
        next_producer_epoch=LAST,
        timeout_ms=NO_TIMEOUT_MS,
    )
    assert driver.init(two_phase=True).value.code is BUSY
    assert marked(driver) == {(42, 101, False)}
    driver.crash()
    assert ids(driver.init(two_phase=True).value) == (1_000, 0)
    for former in ((42, 100), (73, LAST)):
        assert driver.init(*former).value.code is FENCED
