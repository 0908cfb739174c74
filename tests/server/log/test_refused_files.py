"""The disk is full for one of the kinds of files that an append writes. Either the append is
refused and changes nothing, or it succeeds and the log writes the refused file later. After a crash
at any moment, and after the disk has space again, the state is the one that the bytes of the log
give (D6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from oncelog_protocol.records.batch import split_batches
from oncelog_server.log.log import PartitionLog
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import (
    DIRECTORY,
    Driver,
    busy,
    check_invariants,
    logs_in,
    oracle_of,
    producers_of,
)
from tests.server.storage.memory_files import NO_SPACE, MemoryFiles

# The files that an append may write: leader epochs, and at a roll the files of the new and of the
# old segment.
KINDS = {
    "leader epochs": r"leader-epoch-checkpoint",
    "log": r"\.log$",
    "index": r"\.index$",
    "timeindex": r"\.timeindex$",
    "txnindex": r"\.txnindex$",
    "snapshot": r"\.snapshot",
    "sizes": r"txn-index-checkpoint",
    "all": r"",
}
# If the disk refuses these files, appends still succeed. The log needs the files only after a roll,
# or only for a faster start.
TAKES_APPENDS = ("leader epochs", "txnindex", "snapshot")


class Full:
    """A disk that refuses changes of matching files, after `room` more accepted changes."""

    def __init__(self, files: MemoryFiles, pattern: str, room: int) -> None:
        self._files, self._step = files, files.step
        self._pattern, self._room = pattern, room
        self.refused = 0
        files.step = self._check  # type: ignore[method-assign]  # a fault

    def _check(self, operation: str, path: str) -> None:
        if operation in ("create", "append", "rename") and re.search(self._pattern, path):
            self._room -= 1
            if self._room < 0:
                self.refused += 1
                raise StorageError(operation, path, NO_SPACE)
        self._step(operation, path)

    def free(self) -> None:
        self._files.step = self._step  # type: ignore[method-assign]  # no fault


def epochs_in_bytes(files: MemoryFiles) -> list[tuple[int, int]]:
    found: dict[int, int] = {}
    for path in logs_in(files):
        for _, header in split_batches(bytes(files.nodes[path].data)):
            found.setdefault(header.partition_leader_epoch, header.base_offset)
    return sorted(found.items())


def epochs_of(log: PartitionLog) -> list[tuple[int, int]]:
    """Return the leader epochs that have records in the log."""
    return [
        (leader_epoch[0], leader_epoch[1])
        for leader_epoch in log.leader_epochs
        if leader_epoch[1] < log.log_end_offset
    ]


def state_of(driver: Driver) -> object:
    log = driver.log
    return (
        log.log_end_offset,
        producers_of(log.producers),
        log.aborted_transactions(0, 1 << 40),
        log.first_unstable_offset(1 << 40),
        oracle_of(driver.files),
    )


def check(driver: Driver) -> None:
    check_invariants(driver.log, driver.files)
    assert epochs_of(driver.log) == epochs_in_bytes(driver.files)


def work(driver: Driver) -> list[Callable[[], object]]:
    """Return steps that append a batch of a new epoch, abort and commit transactions, and fill
    several segments."""
    steps: list[Callable[[], object]] = []
    for turn in range(4):
        steps += [
            lambda: driver.plain(2, size=200),
            partial(driver.send, 20 + turn, 0, 2, transactional=True),
            partial(driver.mark, 20 + turn, committed=turn == 2),
            lambda: driver.plain(2, size=500),
        ]
    return steps


def refuse(kind: str, room: int) -> tuple[Driver, Full, int]:
    """Run all steps of `work` on a full disk. Return the driver, the disk and the number of refused
    steps."""
    driver = busy()
    driver.leader_epoch += 1
    full = Full(driver.files, KINDS[kind], room)
    refusals = 0
    for number, step in enumerate(work(driver)):
        before = state_of(driver)
        try:
            step()
        except StorageError:
            refusals += 1
            assert state_of(driver) == before
        check(driver)
        if number == 9:
            driver.leader_epoch += 1
        if number % 5 == 4:
            driver.files.settle()
    assert full.refused
    return driver, full, refusals


@pytest.mark.parametrize("room", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_d6_a_refused_append_changes_nothing_and_a_kill_loses_no_state(
    kind: str, room: int
) -> None:
    driver, full, refusals = refuse(kind, room)
    assert refusals or kind in TAKES_APPENDS
    full.free()
    driver.kill()
    check(driver)
    driver.plain()
    driver.restart()
    check(driver)


@pytest.mark.parametrize("room", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_d6_refused_files_are_written_before_a_stop_is_clean(kind: str, room: int) -> None:
    driver, full, _ = refuse(kind, room)
    try:
        driver.stop()
    except StorageError:
        pass
    else:
        assert kind in ("snapshot", "log", "sizes"), (
            "the stop fails while a file is missing that a start would trust"
        )
        assert driver.log.refusals.current is not None
    full.free()
    driver.log.try_again(driver.now_ms)
    assert driver.log.refusals.current is None
    for step in work(driver)[:2]:
        step()
    driver.restart()
    check(driver)
    assert not [name for name in driver.files.list(DIRECTORY) if name.endswith(".tmp")]


def refuse_a_roll(driver: Driver) -> None:
    """Let the disk refuse an append, and then a larger append that needs a new segment. On return
    the disk has space again."""
    full = Full(driver.files, KINDS["log"], 0)
    with pytest.raises(StorageError):
        driver.plain()
    with pytest.raises(StorageError):
        driver.plain(size=1_800)
    full.free()


def test_a_retry_fails_while_the_disk_refuses_a_file_of_its_roll() -> None:
    """The disk accepts the new segment and refuses its snapshot (seed 62521 of the simulation)."""
    driver = busy()
    refuse_a_roll(driver)
    full = Full(driver.files, KINDS["snapshot"], 1)  # accepts the snapshot's creation only
    with pytest.raises(StorageError):
        driver.log.try_again(driver.now_ms)
    assert driver.log.refusals.current is not None
    full.free()
    driver.log.try_again(driver.now_ms)
    driver.files.settle()
    assert driver.log.refusals.current is None
    assert not [path for path in driver.files.nodes if path.endswith(".tmp")]
    check(driver)


def test_a_retry_that_rolls_probes_the_new_segment() -> None:
    """The probe for space appends zeros and cuts them off again. It must not do so in the closed
    segment: the last sync of that segment may have begun before the cut, so a power failure could
    bring the zeros back (seeds 54173 and 54651 of the simulation)."""
    driver = busy()
    closed = driver.log.segments.active
    refuse_a_roll(driver)
    changed: list[str] = []
    step = driver.files.step

    def note(operation: str, path: str) -> None:
        changed.append(path)
        step(operation, path)

    driver.files.step = note  # type: ignore[method-assign]  # an observer
    driver.log.try_again(driver.now_ms)
    assert driver.log.segments.active is not closed
    assert driver.log.segments.active.log.path in changed
    assert closed.log.path not in changed
    check(driver)
