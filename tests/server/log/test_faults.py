"""A disk that refuses operations: no change is half done, and no acknowledged record is missing
(scenarios D1, D3, D4, D6, D7, D9, S16)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from oncelog_server.log.config import LogConfig
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import OFFSET_INDEX_SUFFIX
from tests.server.log.driver import (
    DIRECTORY,
    MANY,
    NOW_MS,
    Driver,
    check_invariants,
    delete_records_before,
    flush,
    producers_of,
    read_all,
)
from tests.server.storage.memory_files import NO_SPACE, FileNode, MemoryFiles


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.send(1, 0, 2)
    driver.send(2, 0, 1, transactional=True)
    return driver


def test_a_failed_append_changes_nothing_and_may_be_retried(driver: Driver) -> None:
    before = producers_of(driver.log.producers)
    driver.files.fail_append(match=".log")
    with pytest.raises(StorageError):
        driver.send(1, 2, 1)
    assert producers_of(driver.log.producers) == before
    assert driver.log.log_end_offset == 3
    assert driver.send(1, 2, 1).base_offset == 3
    check_invariants(driver.log, driver.files)


def test_d3_a_failed_marker_leaves_its_transaction_open(driver: Driver) -> None:
    driver.files.fail_append(match=".log")
    with pytest.raises(StorageError):
        driver.mark(2, committed=False)
    assert driver.log.first_unstable_offset(MANY) == 2
    driver.mark(2, committed=False)
    assert driver.log.first_unstable_offset(MANY) is None
    check_invariants(driver.log, driver.files)


@pytest.mark.parametrize("room", range(0, 400, 7))
def test_d1_on_a_full_disk_the_log_ends_after_a_whole_batch(room: int) -> None:
    driver = Driver(LogConfig(segment_bytes=500))
    used = sum(len(node.data) for node in driver.files.nodes.values())
    driver.files.capacity = used + 1000 + room
    acknowledged = 0
    for n in range(100):
        try:
            driver.send(1, n, 1)
        except StorageError:
            break
        acknowledged = n + 1
    assert 0 < acknowledged < 100
    driver.files.capacity = None
    assert driver.log.log_end_offset == acknowledged
    assert driver.send(1, acknowledged, 1).base_offset == acknowledged
    check_invariants(driver.log, driver.files)
    driver.kill()
    check_invariants(driver.log, driver.files)


@pytest.mark.parametrize("kind", [".index", ".timeindex", "txn-index-checkpoint"])
def test_d6_a_roll_that_fails_leaves_the_old_segment_in_use(driver: Driver, kind: str) -> None:
    driver.files.fail_append(match=kind)
    for n in range(400):
        try:
            driver.send(3, n, 1, timestamp=driver.now_ms + n)
        except StorageError:
            break
    assert len(driver.log.segments) == 1
    driver.send(3, n, 1)
    assert len(driver.log.segments) == 2
    check_invariants(driver.log, driver.files)
    driver.kill()
    check_invariants(driver.log, driver.files)


def test_d4_a_snapshot_that_cannot_be_written_stops_neither_roll_nor_restart(
    driver: Driver,
) -> None:
    driver.files.fail_append(match=".snapshot")
    driver.log.roll(driver.now_ms)
    assert len(driver.log.segments) == 2
    driver.plain()
    driver.restart()
    check_invariants(driver.log, driver.files)


def test_s16_after_a_failed_fsync_the_log_fails_until_the_next_start(driver: Driver) -> None:
    outcome: list[StorageError | None] = []
    driver.files.fail_sync()
    flush(driver.log, outcome.append)
    driver.files.settle()
    assert isinstance(outcome.pop(), StorageError)
    assert driver.log.recovery_point == 0
    flush(driver.log, outcome.append)
    driver.files.settle()
    assert driver.log.recovery_point == 0, (
        "the recovery point stays: a later fsync succeeds even if pages were lost"
    )
    with pytest.raises(StorageError):
        driver.plain()
    with pytest.raises(StorageError):
        driver.log.close(clean=True)
    driver.kill()
    check_invariants(driver.log, driver.files)


def test_d9_a_failed_read_affects_only_that_read(driver: Driver) -> None:
    answer = driver.log.read(0, 1000, limit=MANY)
    assert answer.records is not None
    driver.files.fail_reads(".log")
    with pytest.raises(StorageError):
        answer.records.read()
    driver.files.fail_reads("")
    assert driver.plain().base_offset == 3


def test_d9_a_read_never_skips_a_segment_whose_indexes_could_not_be_rebuilt() -> None:
    """A read of the segment fails or returns its records. It never skips them."""
    driver = Driver()
    for _ in range(3):
        driver.plain()
    driver.log.roll(driver.now_ms)
    driver.plain()
    old = driver.log.segments[0]
    old.forget_indexes()
    del driver.files.nodes[old.path(OFFSET_INDEX_SUFFIX)]
    driver.files.fail_reads(".log")
    with pytest.raises(StorageError):
        driver.log.read(1, 1000, limit=MANY)
    driver.files.fail_reads("")
    assert [record.offset for record in read_all(driver.log, 1)] == [1, 2, 3]


def test_flushes_may_end_in_any_order() -> None:
    driver = Driver()
    driver.plain()
    first = driver.log.begin_flush()
    driver.log.roll(driver.now_ms)
    driver.plain()
    second = driver.log.begin_flush()
    driver.files.settle()
    driver.log.finish_flush(second, None)
    assert driver.log.recovery_point == 0, "the flushes overlap, so an error may come in the first"
    driver.log.finish_flush(first, None)
    assert driver.log.recovery_point == 2
    assert driver.log.segments.unsynced == []


def test_s16_a_flush_does_not_count_if_an_overlapping_flush_fails_later() -> None:
    """Two rolls sync the same file, and the kernel reports the error only to the first sync."""
    driver = Driver()
    driver.files.settle()
    for _ in range(3):
        driver.plain(size=1500)
    first, second = driver.files.pending
    driver.files.pending.clear()
    second()
    assert driver.log.recovery_point == 0
    driver.files.fail_sync()
    first()
    assert isinstance(driver.log.failure, StorageError)
    assert driver.log.recovery_point == 0
    assert driver.log.flushed().value is False


def test_a_roll_makes_the_old_segment_durable_in_the_background() -> None:
    driver = Driver()
    driver.plain(3)
    driver.log.roll(driver.now_ms)
    driver.plain()
    assert driver.log.recovery_point == 0
    driver.files.settle()
    assert driver.log.recovery_point == 3
    node = driver.files.nodes[f"{DIRECTORY}/{0:020d}.log"]
    assert node.durable == bytes(node.data)


def test_a_disk_without_space_for_a_new_log_is_an_error() -> None:
    with pytest.raises(StorageError):
        Driver(files=MemoryFiles(capacity=10))


SIDE_FILES = [".txnindex", ".index", ".timeindex", ".snapshot", "txn-index-checkpoint",
              "leader-epoch-checkpoint"]  # fmt: skip


@pytest.mark.parametrize("kind", SIDE_FILES)
@pytest.mark.parametrize("then", ["stop", "kill"])
def test_d3_an_index_or_checkpoint_that_the_disk_refused_is_written_later(
    driver: Driver, kind: str, then: str
) -> None:
    """While the disk refuses the file, the log appends an abort marker, gets a new leader epoch and
    tries to roll. The records that another producer has committed stay visible. Once the disk has
    space, the log writes the file."""
    errors: list[StorageError] = []
    log = driver.log
    log.refusals.report_to(errors.append)
    refusing = Refusing(driver.files, kind)
    refusing.begin()
    driver.send(4, 0, 1, transactional=True)
    driver.mark(4, committed=True)
    driver.mark(2, committed=False)
    driver.leader_epoch = 1
    driver.plain()
    assert log.first_unstable_offset(MANY) is None
    with suppress(StorageError):
        log.roll(driver.now_ms)
    driver.plain()
    rolls = kind in (".index", ".timeindex", "txn-index-checkpoint")
    assert [error.reason for error in errors] == ([] if rolls else [NO_SPACE])
    if not rolls:
        with pytest.raises(StorageError):
            log.try_again(driver.now_ms)
    refusing.end()
    log.try_again(driver.now_ms)
    assert log.refusals.current is None
    log.roll(driver.now_ms)
    driver.plain()
    check_invariants(log, driver.files)
    driver.restart() if then == "stop" else driver.kill()
    assert [row[0] for row in driver.log.aborted_transactions(0, MANY)] == [2]
    assert [
        (leader_epoch.epoch, leader_epoch.start_offset) for leader_epoch in driver.log.leader_epochs
    ] == [(0, 0), (1, 6)]
    check_invariants(driver.log, driver.files)


def test_a_disk_counts_as_full_until_the_refused_append_fits(driver: Driver) -> None:
    """The disk still has space for smaller appends. It counts as full until the refused number of
    bytes fits."""
    errors: list[StorageError] = []
    log = driver.log
    log.refusals.report_to(errors.append)
    used = sum(len(node.data) for node in driver.files.nodes.values())
    driver.files.capacity = used + 500
    for _ in range(2):
        with pytest.raises(StorageError):
            driver.plain(size=1000)
        driver.plain()
        with pytest.raises(StorageError):
            log.try_again(driver.now_ms)
    (error,) = errors
    assert error.path == log.segments.active.log.path
    assert error.needed_bytes > 1000
    end, size = log.log_end_offset, log.segments.active.log.size
    driver.files.capacity = None
    log.try_again(driver.now_ms)
    assert (log.log_end_offset, log.segments.active.log.size) == (end, size)
    assert log.refusals.current is None
    driver.plain(size=1000)
    check_invariants(log, driver.files)


@pytest.mark.parametrize("then", ["stop", "kill"])
def test_d1_zeros_of_a_retry_never_stay_in_the_log(driver: Driver, then: str) -> None:
    """The disk refuses once to cut off the zeros that a retry has appended."""
    log, files = driver.log, driver.files
    files.fail_append(match=".log", reason=NO_SPACE)
    with pytest.raises(StorageError):
        driver.plain()
    files.fail_truncation(3)
    for refused in (lambda: log.try_again(NOW_MS), driver.plain, lambda: log.roll(NOW_MS)):
        with pytest.raises(StorageError, match="truncate"):
            refused()
        assert (log.log_end_offset, len(log.segments)) == (3, 1)
        assert log.refusals.refuses_appends
    assert driver.plain().base_offset == 3
    log.try_again(NOW_MS)
    assert log.refusals.current is None
    log.roll(NOW_MS)
    driver.plain()
    check_invariants(log, files)
    driver.restart() if then == "stop" else driver.kill()
    assert driver.log.log_end_offset == 5
    check_invariants(driver.log, files)


@pytest.mark.parametrize("then", ["roll", "stop"])
def test_d1_a_segment_is_closed_without_the_zeros_of_a_retry(driver: Driver, then: str) -> None:
    log, files = driver.log, driver.files
    whole = bytes(files.nodes[log.segments.active.log.path].data)
    files.fail_append(match=".log", reason=NO_SPACE)
    with pytest.raises(StorageError):
        driver.plain()
    files.fail_truncation()
    with pytest.raises(StorageError, match="truncate"):
        log.try_again(NOW_MS)
    if then == "roll":
        log.roll(NOW_MS)
    else:
        log.close(clean=True)
    assert bytes(files.nodes[log.segments[0].log.path].data) == whole


def test_retention_frees_a_disk_that_refuses_all_writes() -> None:
    """Once the disk has space, the log writes the files that were refused before."""
    driver = Driver()
    for _ in range(3):
        driver.plain(3)
        driver.log.roll(driver.now_ms)
    driver.files.capacity = 0
    delete_records_before(driver.log, driver.log.log_end_offset - 1, driver.now_ms)
    assert len(driver.log.segments) < 3
    driver.files.capacity = None
    driver.log.try_again(driver.now_ms)
    check_invariants(driver.log, driver.files)
    driver.restart()
    check_invariants(driver.log, driver.files)


class Refusing:
    """A disk that is full for one kind of file."""

    def __init__(self, files: MemoryFiles, kind: str) -> None:
        self._files = files
        self._kind = kind
        self._append = files.before_append

    def begin(self) -> None:
        def before_append(node: FileNode, path: str, data: bytes) -> None:
            if self._kind in path:
                raise StorageError("append", path, NO_SPACE, len(data))
            self._append(node, path, data)

        self._files.before_append = before_append  # type: ignore[method-assign]  # a fault

    def end(self) -> None:
        self._files.before_append = self._append  # type: ignore[method-assign]  # no fault
