"""Transactions in one partition: the records that readers may see, and the effects of markers
(KIP-98, KIP-890, KIP-1228; scenarios L1, L3-L5, L7, L9, R15, R16)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import split_batches
from oncelog_server.log.errors import AppendError
from oncelog_server.log.results import Origin
from tests.server.log.driver import (
    MANY,
    Driver,
    batch,
    check_invariants,
    delete_records_before,
    oracle_of,
)


def refused(append: Callable[[], object]) -> ErrorCode:
    with pytest.raises(AppendError) as error:
        append()
    return error.value.code


@pytest.fixture
def driver() -> Driver:
    return Driver()


def unstable(driver: Driver, high_watermark: int = MANY) -> int | None:
    return driver.log.first_unstable_offset(high_watermark)


def test_l1_the_first_unstable_offset_is_the_first_of_the_open_transaction(driver: Driver) -> None:
    driver.plain(3)
    driver.send(1, 0, 2, transactional=True)
    driver.plain()
    driver.send(1, 2, 1, transactional=True)
    assert unstable(driver) == 3
    driver.mark(1)
    assert unstable(driver) is None


def test_the_first_unstable_offset_is_of_the_earliest_open_transaction(driver: Driver) -> None:
    for producer in (3, 1, 2):
        driver.send(producer, 0, 1, transactional=True)
    assert unstable(driver) == 0
    driver.mark(1)
    assert unstable(driver) == 0
    driver.mark(3, committed=False)
    assert unstable(driver) == 2
    driver.mark(2)
    assert unstable(driver) is None


def test_after_a_restart_the_first_unstable_offset_is_of_the_earliest_transaction(
    driver: Driver,
) -> None:
    driver.send(1, 0, 1)
    driver.send(2, 0, 1, transactional=True)
    driver.send(1, 1, 1, transactional=True)
    driver.restart()
    assert unstable(driver) == 1
    driver.mark(2, committed=False)
    assert unstable(driver) == 2
    assert driver.log.aborted_transactions(0, MANY)[0].last_stable_offset == 2


def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark(
    driver: Driver,
) -> None:
    driver.send(1, 0, 1, transactional=True)
    driver.mark(1)
    driver.send(2, 0, 1, transactional=True)
    assert unstable(driver, 1) == 0
    driver.mark(2)
    assert unstable(driver, 2) == 2
    assert unstable(driver, 3) == 2
    assert unstable(driver, 4) is None


def test_a_batch_outside_of_the_producer_s_open_transaction_is_refused(driver: Driver) -> None:
    driver.send(1, 0, 1, transactional=True)
    assert refused(lambda: driver.send(1, 1, 1)) == ErrorCode.INVALID_TXN_STATE
    driver.mark(1)
    assert driver.send(1, 1, 1).base_offset == 2


def test_a_newer_epoch_does_not_continue_an_open_transaction_of_an_older_epoch(
    driver: Driver,
) -> None:
    """Only a coordinator that has lost its log lets a newer epoch write here. The COMMIT of the
    newer epoch would make the records of both transactions visible, so the old transaction must be
    aborted first (I4)."""
    driver.send(1, 0, 1, transactional=True)
    for origin in Origin:
        late = batch(producer_id=1, producer_epoch=1, base_sequence=0, is_transactional=True)
        assert refused(partial(driver.append, late, origin)) == ErrorCode.INVALID_TXN_STATE
    driver.mark(1, committed=False)
    assert driver.send(1, 0, 1, epoch=1, transactional=True).base_offset == 2


@pytest.mark.parametrize("committed", [True, False])
def test_l7_a_marker_without_records_sets_only_the_epochs_of_its_producer(
    driver: Driver, committed: bool
) -> None:
    driver.plain()
    driver.mark(7, epoch=3, coordinator_epoch=5, committed=committed)
    assert unstable(driver, 0) is None
    assert driver.log.aborted_transactions(0, MANY) == []
    assert refused(lambda: driver.send(7, 0, 1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(lambda: driver.mark(7, epoch=3, coordinator_epoch=4)) == (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    check_invariants(driver.log, driver.files)


@pytest.mark.parametrize(("version", "epoch"), [(0, 0), (1, 0), (2, 1)])
def test_r15_a_marker_sent_again_changes_nothing(driver: Driver, version: int, epoch: int) -> None:
    driver.send(1, 0, 1, transactional=True)
    for _ in range(3):
        driver.mark(1, epoch=epoch, committed=False, version=version, coordinator_epoch=2)
    assert [row[:3] for row in driver.log.aborted_transactions(0, MANY)] == [(1, 0, 1)]
    assert unstable(driver) is None
    check_invariants(driver.log, driver.files)


def test_from_transaction_version_2_on_a_marker_has_a_greater_epoch_than_the_data(
    driver: Driver,
) -> None:
    driver.send(1, 0, 1, epoch=4, transactional=True)
    for epoch in (3, 4):
        assert refused(partial(driver.mark, 1, epoch=epoch, version=2)) == (
            ErrorCode.INVALID_PRODUCER_EPOCH
        )
    driver.mark(1, epoch=5, version=2)
    assert unstable(driver) is None
    assert refused(lambda: driver.send(1, 1, 1, epoch=4, transactional=True)) == (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )
    assert driver.send(1, 0, 1, epoch=5, transactional=True).base_offset == 2


def test_before_transaction_version_2_sequences_continue_after_a_marker(driver: Driver) -> None:
    driver.send(1, 0, 2, transactional=True)
    driver.mark(1)
    assert driver.send(1, 0, 2, transactional=True).duplicate
    assert driver.send(1, 2, 1, transactional=True).base_offset == 3


def test_a_marker_may_have_the_last_epoch(driver: Driver) -> None:
    driver.send(1, 0, 1, epoch=32766, transactional=True)
    driver.mark(1, epoch=32767, version=2, committed=False)
    driver.kill()
    assert [row[:3] for row in driver.log.aborted_transactions(0, MANY)] == [(1, 0, 1)]


def test_l4_an_aborted_transaction_over_three_segments_is_listed_for_each_segment(
    driver: Driver,
) -> None:
    for n in range(3):
        driver.plain(2)
        driver.send(1, n, 1, transactional=True)
        driver.log.roll(driver.now_ms)
    driver.plain()
    driver.mark(1, committed=False)
    driver.plain()
    for life in (lambda: None, driver.restart, driver.kill):
        life()
        assert len(driver.log.segments) >= 4
        for segment in driver.log.segments[:3]:
            found = driver.log.aborted_transactions(segment.base_offset, segment.base_offset + 1)
            if segment.base_offset == 0:
                assert found == []  # the transaction begins at offset 2
            found = driver.log.aborted_transactions(segment.base_offset, segment.end_offset)
            assert [row[:3] for row in found] == [(1, 2, 10)]
        assert driver.log.aborted_transactions(11, MANY) == []


def test_l5_a_read_that_ends_in_an_aborted_transaction_lists_the_transaction(
    driver: Driver,
) -> None:
    """A read lists the aborted transactions between its first offset and its `end_offset`. The
    `end_offset` is 1 to 10 above the offset of the read's last record."""
    for n in range(30):
        driver.send(1, n, 1, transactional=True, size=100)
        driver.send(2, n, 1, size=100)
    driver.mark(1, committed=False)
    for n in range(30, 60):
        driver.send(2, n, 1, size=100)
    oracle = oracle_of(driver.files)
    offset = 0
    while True:
        answer = driver.log.read(offset, 700, limit=MANY, at_least_one=True)
        if answer.records is None:
            break
        headers = [h for _, h in split_batches(answer.records.read(), allow_partial=True)]
        assert headers[-1].last_offset < answer.end_offset <= headers[-1].last_offset + 10
        found = driver.log.aborted_transactions(offset, answer.end_offset)
        assert [row[:3] for row in found] == oracle.aborted(offset, answer.end_offset)
        offset = headers[-1].next_offset
    assert offset == driver.log.log_end_offset


def test_l9_records_deleted_below_an_open_transaction_move_its_start(driver: Driver) -> None:
    driver.send(1, 0, 3, transactional=True)
    driver.plain(3)
    delete_records_before(driver.log, 5, driver.now_ms)
    assert unstable(driver) == 5
    driver.mark(1, committed=False)
    assert unstable(driver) is None
    assert [row[:3] for row in driver.log.aborted_transactions(5, MANY)] == [(1, 0, 6)]


def test_readers_get_all_records_before_an_open_transaction(driver: Driver) -> None:
    for n in range(40):
        driver.plain(2)
        if n == 25:
            driver.send(1, 0, 1, transactional=True)
    for life in (lambda: None, driver.restart, driver.kill):
        life()
        limit = unstable(driver)
        assert limit == 52
        for offset in range(limit):
            answer = driver.log.read(offset, 1 << 20, limit=limit)
            assert answer.records is not None
            headers = [header for _, header in split_batches(answer.records.read())]
            assert headers[0].base_offset <= offset <= headers[0].last_offset
            assert headers[-1].next_offset <= limit
            ends = {limit, *(segment.base_offset for segment in driver.log.segments)}
            assert headers[-1].next_offset in ends
        assert driver.log.read(limit, 1 << 20, limit=limit).records is None
