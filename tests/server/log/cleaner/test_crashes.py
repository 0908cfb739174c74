"""A kill or a power loss at any change of the disk during a compaction. The next start finds the
old segments or the new segment, with no record twice and no file left over (S9, S17, S18)."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import TXN_INDEX_CHECKPOINT
from tests.server.log.cleaner.compacting import (
    COMPACTED,
    Compacting,
    producers_by_scan,
    read_committed,
)
from tests.server.log.driver import (
    DIRECTORY,
    apply_retention,
    delete_records_before,
    flush,
    producers_of,
)
from tests.server.log.test_damage import open_again
from tests.server.log.test_refused_files import Full
from tests.server.storage.memory_files import FileNode, Stopped
from tests.simulation.disk import Loss, SimDisk, Trap
from tests.simulation.files import SimFiles
from tests.simulation.process import Killed, Process

RETENTION_MS = COMPACTED.delete_retention_ms


def written(driver: Compacting) -> Compacting:
    """Write segments with tombstones, and with aborted and committed transactions within and across
    segments. Compaction will merge some of the segments, and newer records supersede the last
    batches of some producers."""
    for turn in range(4):
        driver.put(("a", f"{turn}"), ("b", f"{turn}"), producer_id=1, sequence=2 * turn, epoch=0)
        driver.put(("c", f"{turn}"), ("x", f"{turn}"), producer_id=2, sequence=2 * turn, epoch=0,
                   transactional=True)  # fmt: skip
        driver.put((f"only{turn}", "v" * 60))
        if turn % 2:
            driver.mark(2, committed=turn == 3)
        driver.put(("b", None))
        driver.leader_epoch += 1
        driver.roll()
    driver.put(("a", "at the end"))
    driver.files.settle()
    return driver


def passes(driver: Compacting) -> None:
    """Run two passes, the second after the retention of tombstones."""
    driver.compact()
    driver.now_ms += RETENTION_MS
    driver.put(("d", "1"), producer_id=1, sequence=8, epoch=0)
    driver.roll()
    driver.compact()
    driver.files.settle()


def there(driver: Compacting) -> dict[str, str]:
    return {key: value for key, value in read_committed(driver).items() if value is not None}


def check_restarted(driver: Compacting, expected: dict[str, str]) -> None:
    found = there(driver)
    assert found in (expected, {**expected, "d": "1"})
    driver.files.settle()
    assert not [name for name in driver.files.list(DIRECTORY) if name.endswith(
        (".cleaned", ".swap", ".deleted"))]  # fmt: skip
    offsets = [offset for offset, _, _ in driver.contents()]
    assert offsets == sorted(set(offsets)), "no record twice"
    assert driver.log.first_unstable_offset(1 << 40) is None
    live = {event: (row[0], *row[2:]) for event, row in producers_of(driver.log.producers).items()}
    assert live == producers_by_scan(driver)
    again = driver.put(("c", "3"), ("x", "3"), producer_id=2, sequence=6, epoch=0)
    assert again.duplicate


def restart(driver: Compacting, point: int, *, twice_at: int | None = None) -> None:
    """Start after a kill. If given, `twice_at` is the number of the disk's change at which a second
    kill happens."""
    driver.files = driver.files.after_kill()
    if twice_at is not None:
        driver.files.stop_before(twice_at)
        try:
            driver.open(clean=False, recovery_point=point)
            driver.files.settle()
        except Stopped:
            pass
        driver.files = driver.files.after_kill()
    driver.log = driver.open(clean=False, recovery_point=point)
    driver.files.settle()


@pytest.mark.parametrize("knows", ["all", "nothing"])
def test_s9_s18_a_kill_at_any_step_of_compaction_leaves_old_or_new_segments(knows: str) -> None:
    expected = there(written(Compacting()))
    for operation in range(1_000):
        driver = written(Compacting())
        driver.files.stop_before(len(driver.files.operations) + operation, torn_bytes=operation)
        try:
            passes(driver)
        except Stopped:
            restart(driver, driver.log.recovery_point if knows == "all" else 0)
            check_restarted(driver, expected)
        else:
            assert operation > 60
            assert there(driver) == {**expected, "d": "1"}
            return
    raise AssertionError("the passes do not end")


def test_s9_a_coordinator_starts_after_a_kill_of_a_compaction_with_a_roll_before_the_swap() -> None:
    """The roll writes the checkpoint of sizes. It must leave out the old segments: a coordinator
    refuses a segment that is smaller than its size in the checkpoint, and the new segment is
    smaller than the old one."""
    for operation in range(1_000):
        driver = written(Compacting())
        driver.files.stop_before(len(driver.files.operations) + operation)
        try:
            driver.compact(before_swap=partial(put_and_roll, driver))
        except Stopped:
            driver.files = driver.files.after_kill()
            point = driver.log.recovery_point
            driver.log = open_again(driver, clean=False, point=point, lost_nothing=True)
            assert there(driver)["only0"]
        else:
            assert operation > 60
            return
    raise AssertionError("the pass does not end")


def put_and_roll(driver: Compacting) -> None:
    driver.put(("rolled", "1"))
    driver.roll()


def test_s9_s11_recovery_of_a_half_done_swap_can_be_killed_and_repeated() -> None:
    expected = there(written(Compacting()))
    for operation in range(10, 70, 3):
        for second in range(25):
            driver = written(Compacting())
            driver.files.stop_before(len(driver.files.operations) + operation)
            with pytest.raises(Stopped):
                passes(driver)
            restart(driver, driver.log.recovery_point, twice_at=second)
            check_restarted(driver, expected)


def test_s9_a_pass_that_the_disk_refuses_changes_no_visible_record() -> None:
    """The pass fails, and the log stays in use. The next pass and the next start find every
    record."""
    expected = there(written(Compacting()))
    for nth in range(1, 12):
        for match in ("cleaned", "txn-index", "snapshot"):
            driver = written(Compacting())
            driver.files.fail_append(nth, match=match)
            try:
                driver.compact()
            except StorageError:
                driver.replacement.abandon()
                driver.files.settle()
                assert ".cleaned" not in "".join(driver.files.list(DIRECTORY))
            assert there(driver) == expected
            driver.files.append_fault = None
            driver.compact()
            assert there(driver) == expected
            assert "only0" in expected
            restart(driver, driver.log.recovery_point)
            check_restarted(driver, expected)


def refuse_renames(driver: Compacting, nth: int, times: int) -> list[str]:
    """Refuse `times` renames from the nth on. Return the list that gets the refused names."""
    files, rename = driver.files, driver.files.rename
    asked: list[str] = []
    refused_names: list[str] = []

    def refusing(source: str, target: str) -> None:
        asked.append(source)
        if nth <= len(asked) < nth + times:
            refused_names.append(source)
            raise StorageError("rename", source, "No space left on device")
        rename(source, target)

    files.rename = refusing  # type: ignore[method-assign]  # a fault
    return refused_names


@pytest.mark.parametrize("killed", [False, True])
def test_d6_a_refused_rename_is_undone_and_the_pass_is_retried(killed: bool) -> None:
    """Between the refused pass and the retry, the log has no failure and a reader gets every
    record."""
    expected = there(written(Compacting()))
    for nth in range(1, 100):
        driver = written(Compacting())
        rename = driver.files.rename
        refused_names = refuse_renames(driver, nth, 1)
        try:
            driver.compact()
        except StorageError:
            driver.files.settle()
            if not killed:
                driver.replacement.abandon()
        driver.files.rename = rename  # type: ignore[method-assign]  # no fault
        driver.files.settle()
        assert driver.log.failure is None, refused_names
        assert there(driver) == expected
        for segment in driver.log.segments:
            assert segment.path(".log") == segment.log.path
            assert driver.files.exists(segment.log.path)
        if not killed:
            driver.compact()
            driver.files.settle()
            assert there(driver) == expected
        restart(driver, driver.log.recovery_point)
        check_restarted(driver, expected)
        if not refused_names:
            assert nth > 15
            return
    raise AssertionError("the renamings do not end")


@pytest.mark.parametrize("times", [2, 3, 100])
@pytest.mark.parametrize("killed", ["", "before space", "after space"])
def test_d6_a_swap_that_could_not_be_undone_is_undone_when_there_is_space(
    times: int, killed: str
) -> None:
    """Until the disk has space, reads succeed and appends fail. A start during that time finds
    all records."""
    expected = there(written(Compacting()))
    halves = 0
    for nth in range(1, 100):
        driver = written(Compacting())
        rename = driver.files.rename
        refused_names = refuse_renames(driver, nth, times)
        try:
            driver.compact()
        except StorageError:
            driver.replacement.abandon()
        driver.files.settle()
        log = driver.log
        halves += log.failure is not None
        with suppress(StorageError):
            apply_retention(log, driver.now_ms + 1, log.log_end_offset)
        driver.files.settle()
        assert there(driver) == expected
        if log.failure is not None:
            assert log.refusals.current is not None
            with pytest.raises(StorageError):
                driver.put(("d", "1"))
        if killed != "before space":
            driver.files.rename = rename  # type: ignore[method-assign]  # no fault
            log.try_again(driver.now_ms)
            driver.files.settle()
            assert (log.failure, log.refusals.current) == (None, None), refused_names
            assert there(driver) == expected
            for segment in log.segments:
                assert segment.path(".log") == segment.log.path
        if not killed:
            driver.compact()
            driver.files.settle()
            assert there(driver) == expected
            names = driver.files.list(DIRECTORY)
            assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        restart(driver, log.recovery_point)
        check_restarted(driver, expected)
        if not refused_names:
            assert halves > 2
            return
    raise AssertionError("the renamings do not end")


def test_d6_an_abandoned_swap_is_not_finished_after_a_later_pass() -> None:
    driver = written(Compacting())
    rename = driver.files.rename

    def refusing(source: str, target: str) -> None:
        if source.endswith((".log", ".swap")):
            raise StorageError("rename", source, "No space left on device")
        rename(source, target)

    driver.files.rename = refusing  # type: ignore[method-assign]  # a fault
    with pytest.raises(StorageError):
        driver.compact()
    driver.replacement.abandon()
    driver.files.settle()
    left = [name for name in driver.files.list(DIRECTORY) if name.endswith(".swap")]
    assert left
    driver.files.rename = rename  # type: ignore[method-assign]  # no fault
    driver.put(*((key, None) for key in ("a", "b", "only0")))
    driver.roll()
    driver.now_ms += RETENTION_MS
    driver.compact()
    left = [name for name in driver.files.list(DIRECTORY) if name.endswith(".swap")]
    assert not left


@pytest.mark.parametrize("times", [1, 2, 100])
def test_d6_retention_refused_halfway_leaves_no_path_without_a_file(
    times: int,
) -> None:
    expected = there(written(Compacting()))
    for nth in range(1, 8):
        driver = written(Compacting())
        rename = driver.files.rename
        first = driver.log.segments[0]
        before = first.log.read(0, first.size)
        refused_names = refuse_renames(driver, nth, times)
        try:
            delete_records_before(driver.log, driver.log.segments[2].base_offset, driver.now_ms)
        except StorageError:
            assert refused_names
        for segment in driver.log.segments:
            assert driver.files.exists(segment.log.path)
        if first in driver.log.segments:
            assert first.log.read(0, first.size) == before
        driver.files.rename = rename  # type: ignore[method-assign]  # no fault
        apply_retention(driver.log, driver.now_ms, driver.log.log_end_offset)
        assert first not in driver.log.segments
        apply_retention(driver.log, driver.now_ms + 1, driver.log.log_end_offset)
        driver.files.settle()
        assert not [name for name in driver.files.list(DIRECTORY) if name.endswith(".deleted")]
        assert there(driver).items() <= expected.items()


def test_d6_files_deleted_by_a_pass_stay_while_a_segment_is_read_by_their_name() -> None:
    """The pass has left a `.log.deleted` file, which is unlinked later. Then a deletion of records
    renames the file of the new segment to this name. The disk refuses the further renames of the
    segment and also the undo, so the segment stays in use under this name."""
    driver = written(Compacting())
    driver.configure(file_delete_delay_ms=1_000)
    driver.compact()
    log = driver.log
    first = log.segments[0]
    before = first.log.read(0, first.size)
    assert any(f"{first.path('.log')}.deleted" in paths for _, paths in log.segments.deleted)
    rename = driver.files.rename
    refused_names = refuse_renames(driver, 2, 1_000)
    with pytest.raises(StorageError):
        delete_records_before(log, log.segments[1].base_offset, driver.now_ms)
    with pytest.raises(StorageError):
        apply_retention(log, driver.now_ms + 2_000, log.log_end_offset)
    driver.files.settle()
    assert refused_names
    assert first.log.read(0, first.size) == before
    driver.files.rename = rename  # type: ignore[method-assign]  # no fault
    for later_ms in (3_000, 5_000):
        apply_retention(log, driver.now_ms + later_ms, log.log_end_offset)
        driver.files.settle()
    assert first not in log.segments
    assert not [name for name in driver.files.list(DIRECTORY) if name.endswith(".deleted")]


class Later:
    """An event loop that keeps the disk's work until a test runs it."""

    def __init__(self) -> None:
        self.pending: list[Callable[[], None]] = []

    def call_later(self, _delay_s: float, callback: Callable[[], None]) -> None:
        self.pending.append(callback)


class SettledFiles(SimFiles):
    """The simulator's files with a `Later` as the event loop. `settle` runs all work of the
    disk."""

    def __init__(self, disk: SimDisk) -> None:
        self.later = Later()
        super().__init__(disk, Process("broker", 0), cast(AbstractEventLoop, self.later))

    def settle(self) -> None:
        while self.later.pending:
            self.later.pending.pop(0)()


def on(disk: SimDisk) -> Compacting:
    return Compacting(files=cast(Any, SettledFiles(disk)))


def spring() -> None:
    raise Killed


def flushed(driver: Compacting) -> Compacting:
    errors: list[StorageError | None] = []
    flush(driver.log, errors.append)
    driver.files.settle()
    assert errors == [None]
    return driver


@pytest.mark.parametrize("ordered", [True, False], ids=["journal", "unordered"])
def test_s9_s17_a_power_loss_at_any_step_of_compaction_leaves_old_or_new_segments(
    ordered: bool,
) -> None:
    """Each flushed record exists once, whichever renames the power loss undid."""
    expected = there(written(Compacting()))
    ends = 0
    for seed in range(300 if ordered else 600):
        disk = SimDisk(Random(seed))
        driver = flushed(written(on(disk)))
        disk.trap = Trap(1 + seed % 150, "", spring)
        try:
            passes(driver)
        except Killed:
            ends += 1
        point = driver.log.recovery_point
        disk.trap = None
        disk.lose_power(Loss(ordered=ordered, holes=0, garbage=0, torn=0))
        after = on(disk)
        after.log = after.open(clean=False, recovery_point=point)
        after.files.settle()
        check_restarted(after, expected)
    assert ends > 150


def test_s17_s18_merged_segments_restored_by_a_power_loss_are_not_served_twice() -> None:
    """The power loss undid the rename of an old segment, but not the rename of the new segment to
    the old name."""
    driver = Compacting()
    for turn in range(4):
        driver.put((f"{turn}", "v"), ("again", f"{turn}"))
        driver.roll()
    old = {path: bytes(driver.files.nodes[path].data) for path in list(driver.files.nodes)}
    driver.compact()
    expected = driver.contents()
    assert len(driver.log.segments) == 2
    for back in (2, 4, 6):
        files = driver.files.after_kill()
        for suffix in ("log", "index", "timeindex"):
            path = f"{DIRECTORY}/{back:020}.{suffix}"
            files.nodes[path] = FileNode(bytearray(old[path]))
        for point in (0, back, 8):
            after = Compacting(files=files.after_kill())
            after.files = files.after_kill()
            after.log = after.open(clean=False, recovery_point=point)
            after.files.settle()
            assert after.contents() == expected
            assert len(after.log.segments) == 2


def test_d6_a_checkpoint_that_is_refused_after_a_swap_leaves_no_file() -> None:
    finished = 0
    for room in range(100):
        driver = written(Compacting())
        full = Full(driver.files, TXN_INDEX_CHECKPOINT, room)
        try:
            driver.compact()
            finished += full.refused > 0
        except StorageError:
            driver.replacement.abandon()
        driver.files.settle()
        full.free()
        driver.log.try_again(driver.now_ms)
        driver.compact()
        driver.files.settle()
        names = driver.files.list(DIRECTORY)
        assert not [name for name in names if name.startswith(f"{TXN_INDEX_CHECKPOINT}.")], room
        if not full.refused:
            break
    assert finished > 0
