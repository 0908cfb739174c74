"""The single file in which a clean stop stores the state of all logs. Because of this
file, the stop has to write fewer files for each log."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_server.log.checkpoints import MalformedCheckpoint
from oncelog_server.log.closed import (
    ClosedLog,
    closed_log_line,
    decode_closed_logs,
    encode_closed_logs,
)
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from oncelog_server.slices import at_its_end
from tests.server.log.driver import DIRECTORY, Driver, busy, check_invariants

LOGS = {("a", 0): ClosedLog(0, 400, 0, 0, 0), ("b.c-d", 17): ClosedLog(5, 1 << 33, 2, 99, 3)}


def aborting(driver: Driver) -> None:
    driver.send(11, 0, transactional=True)
    driver.mark(11, committed=False)
    driver.plain()


def stopped(driver: Driver) -> tuple[int, ClosedLog]:
    point, _ = driver.stop()
    return point, driver.log.remembered()


def again(driver: Driver, point: int, closed: ClosedLog | None) -> PartitionLog:
    return driver.open(clean=True, recovery_point=point, closed=closed)


def files_of(driver: Driver) -> set[str]:
    return {path.removeprefix(f"{DIRECTORY}/") for path in driver.files.nodes}


def test_a_changed_file_is_refused_or_has_the_same_contents() -> None:
    """Every changed bit is refused, unless it turns a line ending into a different line ending. The
    file then has the same contents."""
    data = encode_closed_logs([closed_log_line(name, log) for name, log in LOGS.items()])
    assert decode_closed_logs(data) == LOGS
    assert decode_closed_logs(encode_closed_logs([])) == {}
    refused = 0
    for place in range(len(data)):
        for bit in (1, 4, 16):
            changed = bytearray(data)
            changed[place] ^= bit
            try:
                assert decode_closed_logs(bytes(changed)) == LOGS
            except MalformedCheckpoint:
                refused += 1
    assert refused > 2 * len(data)
    assert decode_closed_logs(data[: len("0\n")]) == {}, "without entries, the start reads all logs"
    for size in range(len("0\n") + 1, len(data)):
        with pytest.raises(MalformedCheckpoint):
            decode_closed_logs(data[:size])


def test_a_short_log_without_producers_gets_no_file_at_a_clean_stop() -> None:
    """Writing a snapshot for each of 20,000 such logs would take longer than the rest of the
    stop."""
    driver = Driver(LogConfig())
    driver.plain(3)
    before = files_of(driver)
    driver.stop()
    assert files_of(driver) == before
    driver.restart()
    driver.plain(timestamp=driver.now_ms + 7)
    driver.restart()
    assert files_of(driver) == before
    check_invariants(driver.log, driver.files)
    found = at_its_end(driver.log.max_timestamp_offset())
    assert found is not None
    assert (found.timestamp, found.offset) == (driver.now_ms + 7, 3)
    assert driver.log.recovery.batches_replayed == 0


def test_a_log_with_producers_has_a_snapshot_at_its_end_after_a_clean_stop() -> None:
    """If a log has no snapshot, Apache Kafka assumes that the log has no producers."""
    driver = Driver(LogConfig())
    driver.send(7, 0)
    driver.restart()
    assert f"{1:020}.snapshot" in files_of(driver)
    assert driver.log.recovery.batches_replayed == 0
    assert driver.send(7, 0).duplicate


def test_an_index_with_entries_is_written_and_an_existing_index_stays_correct() -> None:
    driver = Driver(LogConfig())
    driver.plain()
    driver.restart()
    assert f"{0:020}.index" not in files_of(driver)
    driver.plain(size=5000)
    driver.plain()
    driver.restart()
    assert {f"{0:020}.index", f"{0:020}.timeindex"} <= files_of(driver)
    check_invariants(driver.log, driver.files)


@pytest.mark.parametrize("remembered", [True, False])
def test_aborted_transactions_are_known_after_a_clean_stop(remembered: bool) -> None:
    """The checkpoint of the roll was written before the abort, so it does not have the aborted
    transaction. The start finds the transaction even without the state that the clean stop
    stored."""
    driver = Driver(LogConfig())
    driver.plain()
    driver.log.roll(driver.now_ms)
    aborting(driver)
    point, closed = stopped(driver)
    driver.log = again(driver, point, closed if remembered else None)
    assert [row[:3] for row in driver.log.aborted_transactions(0, 9)] == [(11, 1, 2)]
    check_invariants(driver.log, driver.files)


def test_a_damaged_txnindex_is_not_trusted_after_a_clean_stop() -> None:
    driver = Driver(LogConfig())
    aborting(driver)
    point, closed = stopped(driver)
    (path,) = (path for path in driver.files.nodes if path.endswith(".txnindex"))
    driver.files.nodes[path].data[5] ^= 1
    driver.log = again(driver, point, closed)
    check_invariants(driver.log, driver.files)
    point, closed = stopped(driver)
    del driver.files.nodes[path]
    driver.log = again(driver, point, closed)
    check_invariants(driver.log, driver.files)


@pytest.mark.parametrize("lost", ["all", "a batch", "a byte"])
def test_a_log_that_is_shorter_than_at_its_clean_stop_does_not_start(lost: str) -> None:
    driver = Driver(LogConfig())
    driver.plain()
    kept = driver.log.size_bytes
    driver.plain()
    point, closed = stopped(driver)
    path = driver.log.segments.active.log.path
    if lost == "all":
        del driver.files.nodes[path]
    else:
        del driver.files.nodes[path].data[kept if lost == "a batch" else -1 :]
    for recovery_point in (point, 0):
        with pytest.raises(CorruptLog):
            again(driver, recovery_point, closed)


def test_producers_of_batches_added_after_the_stop_are_found() -> None:
    """An operator has replaced the log's file with a different file."""
    driver = Driver(LogConfig())
    driver.plain()
    point, closed = stopped(driver)
    other = Driver(LogConfig())
    other.plain()
    other.send(7, 0)
    path = driver.log.segments.active.log.path
    driver.files.nodes[path].data[:] = other.files.nodes[path].data
    driver.log = again(driver, point, closed)
    assert driver.send(7, 0).duplicate


def test_txnindex_rows_recomputed_for_an_older_segment_are_checkpointed() -> None:
    driver = Driver(LogConfig())
    aborting(driver)
    driver.log.roll(driver.now_ms)
    driver.plain()
    driver.restart()
    assert driver.log.segments.aborted.is_checkpointed([0])
    del driver.files.nodes[f"{DIRECTORY}/txn-index-checkpoint"]
    driver.restart()
    driver.log.aborted_transactions(0, 2)
    assert not driver.log.segments.aborted.is_checkpointed([0])
    driver.plain()
    driver.restart()
    assert driver.log.segments.aborted.is_checkpointed([0])
    check_invariants(driver.log, driver.files)


@pytest.mark.parametrize("seed", range(10))
def test_a_power_loss_after_the_stop_removes_nothing_that_the_start_trusts(seed: int) -> None:
    driver = Driver(LogConfig()) if seed % 2 else busy()
    aborting(driver)
    point, closed = stopped(driver)
    disk = driver.files.after_power_loss(Random(seed))
    log = driver.open(clean=True, recovery_point=point, closed=closed, files=disk)
    check_invariants(log, disk)
