"""The txnindex rows of a log without `txn-index-checkpoint` are computed in steps."""

from __future__ import annotations

import pytest

from oncelog_server.log.readable import count_readable
from oncelog_server.log.unknown_rows import compute_unknown_rows, has_unknown_rows
from oncelog_server.slices import at_its_end
from oncelog_server.storage.layout import SNAPSHOT_SUFFIX, TXN_INDEX_CHECKPOINT, TXN_INDEX_SUFFIX
from tests.server.log.driver import DIRECTORY, MANY, NOW_MS, Driver, busy, check_invariants
from tests.server.storage.memory_files import bytes_read

STATE = (TXN_INDEX_CHECKPOINT, TXN_INDEX_SUFFIX)


def long() -> Driver:
    driver = busy()
    for producer_id in range(10, 16):
        driver.log.roll(driver.now_ms)
        driver.send(producer_id, 0, transactional=True)
        driver.mark(producer_id, committed=producer_id % 2 == 0)
    return driver


def imported(*removed: str) -> Driver:
    """Return a log that was stopped cleanly, without the files with these endings."""
    driver = long()
    recovery_point, start = driver.stop()
    for path in list(driver.files.nodes):
        if path.endswith(removed):
            del driver.files.nodes[path]
    driver.log = driver.open(
        clean=True, recovery_point=recovery_point, log_start_offset=start,
        closed=driver.log.remembered(),
    )  # fmt: skip
    return driver


@pytest.mark.parametrize("removed", [STATE, (*STATE, SNAPSHOT_SUFFIX), STATE[:1]])
def test_the_rows_are_computed_with_one_read_of_each_segment(removed: tuple[str, ...]) -> None:
    driver = imported(*removed)
    log = driver.log
    assert has_unknown_rows(log, 0)
    assert not has_unknown_rows(log, log.segments.active.base_offset)
    size = log.size_bytes
    with bytes_read() as read:
        at_its_end(compute_unknown_rows(log))
    assert sum(read) < 2 * size
    assert not has_unknown_rows(log, 0)
    check_invariants(log, driver.files)
    assert log.aborted_transactions(0, MANY)


def test_the_checkpoint_is_written_with_the_rows() -> None:
    driver = imported(*STATE)
    at_its_end(compute_unknown_rows(driver.log))
    assert driver.files.exists(f"{DIRECTORY}/{TXN_INDEX_CHECKPOINT}")
    driver.kill()
    assert not has_unknown_rows(driver.log, 0)
    check_invariants(driver.log, driver.files)


def test_only_the_unknown_segments_are_computed() -> None:
    """The segments in between are known."""
    driver = imported(*STATE)
    for segment in driver.log.segments[1:-1:2]:
        driver.log.segments.aborted.rows(segment.base_offset)
    left = len(driver.log.segments.aborted.unknown)
    assert 0 < left < len(driver.log.segments) - 1
    at_its_end(compute_unknown_rows(driver.log))
    check_invariants(driver.log, driver.files)


def test_segments_that_are_removed_between_two_steps_leave_no_rows() -> None:
    driver = imported(*STATE)
    driver.files.cold = set(driver.files.nodes)
    log = driver.log
    steps = compute_unknown_rows(log)
    next(steps)
    log.segments.remove_first(2, NOW_MS)
    first = log.segments[0].base_offset
    at_its_end(steps)
    assert min(log.segments.aborted._sums) >= first
    assert not log.segments.aborted.unknown


def test_a_count_of_readable_records_computes_the_rows_in_its_steps() -> None:
    driver = imported(*STATE)
    other = long()
    end = other.log.log_end_offset
    assert at_its_end(count_readable(driver.log, 0, end)) == at_its_end(
        count_readable(other.log, 0, end)
    )
    assert not has_unknown_rows(driver.log, 0)
