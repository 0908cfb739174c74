"""Leader epochs after an unclean stop: recovery compares the checkpoint with the batches, and
rebuilds it if they differ (S8)."""

from __future__ import annotations

import pytest

from oncelog_server.log.config import LogConfig
from tests.server.log.driver import DIRECTORY, Driver, busy, delete_records_before
from tests.server.storage.memory_files import FileNode, MemoryFiles

PATH = f"{DIRECTORY}/leader-epoch-checkpoint"


def active_path(driver: Driver) -> str:
    return driver.log.segments.active.log.path


def flips(files: MemoryFiles) -> range:
    """Return the numbers of the bits of the checkpoint's file."""
    return range(8 * len(files.nodes[PATH].data))


@pytest.mark.parametrize("log_start_offset", [0, 1, 29])
def test_s8_a_flipped_bit_changes_no_leader_epoch(log_start_offset: int) -> None:
    """The checkpoint has no checksum. A bit flip to a later epoch would make the log seem newer
    than the metadata."""
    driver = busy()
    if log_start_offset:
        delete_records_before(driver.log, log_start_offset, driver.now_ms)
    driver.files.settle()
    epochs = list(driver.log.leader_epochs)
    assert len(epochs) == 5 if log_start_offset == 0 else epochs[0].start_offset == log_start_offset
    whole = driver.files.after_kill()
    rebuilt = 0
    for bit in flips(whole):
        disk = whole.after_kill()
        disk.nodes[PATH].data[bit // 8] ^= 1 << bit % 8
        log = driver.open(clean=False, files=disk, log_start_offset=log_start_offset)
        assert list(log.leader_epochs) == epochs, bit
        rebuilt += "leader-epoch-checkpoint" in log.recovery.rebuilt
        again = driver.open(clean=False, files=disk, log_start_offset=log_start_offset)
        assert list(again.leader_epochs) == epochs
        assert not again.recovery.rebuilt
    assert rebuilt > len(flips(whole)) // 2


@pytest.mark.parametrize("removed", [(0, 1), (1, 2), (0, 3)])
def test_epochs_of_records_that_compaction_removed_stay(removed: tuple[int, int]) -> None:
    """The first segment has three batches, each with its own epoch. After the removal of a batch,
    no other batch confirms or contradicts its epoch."""
    driver = Driver()
    sizes = [0]
    for driver.leader_epoch in range(3):
        driver.plain()
        sizes.append(driver.log.segments.active.size)
    first = driver.log.segments.active
    driver.log.roll(driver.now_ms)
    driver.plain()
    driver.files.settle()
    epochs = list(driver.log.leader_epochs)
    assert [tuple(entry) for entry in epochs] == [(0, 0), (1, 1), (2, 2)]
    disk = driver.files.after_kill()
    start, end = removed
    del disk.nodes[first.log.path].data[sizes[start] : sizes[end]]
    disk.nodes.pop(f"{DIRECTORY}/txn-index-checkpoint", None)
    log = driver.open(clean=False, files=disk, recovery_point=driver.log.recovery_point)
    assert list(log.leader_epochs) == epochs
    assert not log.recovery.rebuilt


def test_leader_epochs_end_with_the_log() -> None:
    driver = busy()
    epochs = list(driver.log.leader_epochs)
    driver.log.assign_leader_epoch(9)
    assert driver.log.leader_epochs.latest_epoch == 9
    driver.kill()
    assert list(driver.log.leader_epochs) == epochs
    driver.leader_epoch = 12
    start = driver.log.segments.active.size
    driver.plain()
    driver.files.nodes[active_path(driver)].data[start + 70] ^= 1
    driver.kill()
    assert list(driver.log.leader_epochs) == epochs


def test_leader_epochs_lost_in_a_power_failure_are_written_again_by_the_start() -> None:
    driver = Driver()
    driver.plain()
    before = bytes(driver.files.nodes[PATH].data)
    driver.leader_epoch = 1
    driver.plain()
    driver.files.nodes[PATH] = FileNode(bytearray(before))
    log = driver.kill()
    log.assign_leader_epoch(2)  # the leader of this epoch appends nothing
    log = driver.restart()
    assert [tuple(leader_epoch) for leader_epoch in log.leader_epochs] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("at_segment_start", [True, False])
def test_leader_epochs_lost_in_a_power_failure_are_found_below_the_recovery_point(
    at_segment_start: bool,
) -> None:
    """A start does not scan the segments below the recovery point, but it finds the epochs that
    begin there."""
    driver = Driver()
    driver.plain()
    before = bytes(driver.files.nodes[PATH].data)
    if at_segment_start:
        driver.log.roll(driver.now_ms)
    for epoch in (1, 2):
        driver.leader_epoch = epoch
        driver.plain()
        driver.log.roll(driver.now_ms)
        driver.plain()
    driver.files.settle()
    written = list(driver.log.leader_epochs)
    assert driver.log.recovery_point == driver.log.segments.active.base_offset
    driver.files.nodes[PATH] = FileNode(bytearray(before))
    log = driver.kill()
    assert list(log.leader_epochs) == written
    assert list(driver.restart().leader_epochs) == written


class CountedFiles(MemoryFiles):
    """A disk that counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def before_read(self, path: str) -> None:
        self.reads += 1


def test_the_check_of_an_epoch_reads_little_of_a_long_segment() -> None:
    """A broker with many leader epochs would otherwise start ten times as slowly: each epoch
    was looked up from the beginning of the segment."""
    files = CountedFiles()
    driver = Driver(LogConfig(index_interval_bytes=4096), files)
    for driver.leader_epoch in range(40):
        for _ in range(40):
            driver.plain(size=500)
    epochs = list(driver.log.leader_epochs)
    files.reads = 0
    log = driver.open(clean=False)
    assert list(log.leader_epochs) == epochs
    assert len(epochs) == 40
    assert files.reads < 10 * len(epochs)
