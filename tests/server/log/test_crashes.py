"""A kill at any change of the disk, or a loss of the page cache, loses no acknowledged record. A
second start finds the same log as the first start (scenarios S9, S11, S13)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from oncelog_server.log.results import Appended, Origin
from tests.server.log.driver import (
    DIRECTORY,
    Driver,
    apply_retention,
    busy,
    check_invariants,
    delete_records_before,
    flush,
    logs_in,
    oracle_of,
)
from tests.server.storage.memory_files import Stopped


@dataclass
class Remembering(Driver):
    """A driver that records the acknowledged offsets."""

    acknowledged: list[int] = field(default_factory=list)

    def append(self, data: bytearray, origin: Origin = Origin.CLIENT) -> Appended:
        answer = super().append(data, origin)
        self.acknowledged.append(answer.base_offset)
        return answer


def scenario(driver: Driver) -> None:
    """Make every kind of change of the disk that an open log makes."""
    for turn in range(4):
        driver.send(1, turn * 2, 2, size=150)
        driver.send(2, turn, 1, transactional=True)
        driver.mark(2, committed=turn % 2 == 0)
        driver.leader_epoch += 1
        driver.log.roll(driver.now_ms)
        driver.files.settle()
    delete_records_before(driver.log, driver.log.segments[1].base_offset, driver.now_ms)
    apply_retention(driver.log, driver.now_ms, driver.log.log_end_offset)
    driver.files.settle()
    driver.stop()


def run_until(operation: int, torn_bytes: int) -> tuple[Driver, list[int]]:
    """Stop the scenario at a change of the disk. Return the offsets acknowledged before it."""
    driver = Remembering()
    opened = len(driver.files.operations)
    driver.files.stop_before(opened + operation, torn_bytes=torn_bytes)
    try:
        scenario(driver)
    except Stopped:
        return driver, driver.acknowledged
    raise StopIteration


def test_s9_a_kill_at_any_change_of_the_disk_loses_nothing_acknowledged() -> None:
    reached = 0
    for operation in range(500):
        for torn_bytes in (0, 40):
            try:
                driver, acknowledged = run_until(operation, torn_bytes)
            except StopIteration:
                assert reached > 50
                return
            reached += 1
            point, start = driver.log.recovery_point, driver.log.log_start_offset
            disk = driver.files.after_kill()
            log = driver.open(clean=False, recovery_point=point, log_start_offset=start, files=disk)
            disk.settle()
            if log.segments[0].base_offset == 0:
                check_invariants(log, disk)
            firsts = {first for first, _ in oracle_of(disk).positions}
            kept = [offset for offset in acknowledged if offset >= log.segments[0].base_offset]
            assert set(kept) <= firsts, driver.files.operations[-3:]
            assert not [name for name in disk.list(DIRECTORY) if name.endswith(".deleted")]
    raise AssertionError("the scenario does not end")


def test_s11_recovery_can_be_killed_at_any_disk_operation_and_repeated() -> None:
    driver = busy()
    for path in list(driver.files.nodes):
        if path.endswith((".snapshot", ".txnindex")):
            del driver.files.nodes[path]
    second = logs_in(driver.files)[2]
    driver.files.nodes[second].data[75] ^= 1
    crashed = driver.files.after_kill()
    expected = driver.open(clean=False, files=crashed.after_kill()).log_end_offset
    for operation in range(200):
        disk = crashed.after_kill()
        disk.stop_before(operation)
        try:
            driver.open(clean=False, files=disk)
            disk.settle()
        except Stopped:
            disk = disk.after_kill()
            log = driver.open(clean=False, files=disk)
            assert log.log_end_offset == expected
            check_invariants(log, disk)
        else:
            assert operation > 5
            return
    raise AssertionError("recovery does not end")


@pytest.mark.parametrize("seed", range(40))
def test_s9_s17_after_a_power_loss_the_log_is_a_prefix_with_all_flushed_records(
    seed: int,
) -> None:
    random = Random(seed)
    driver = Driver()
    outcome: list[object] = []
    flushed = 0
    for turn in range(random.randint(3, 12)):
        driver.send(1, turn * 2, 2, size=random.randint(0, 300))
        driver.send(2, turn, 1, transactional=True)
        if random.random() < 0.5:
            driver.mark(2, committed=random.random() < 0.5)
        if random.random() < 0.3:
            flush(driver.log, outcome.append)
            driver.files.settle()
            flushed = driver.log.log_end_offset
            assert driver.log.recovery_point == flushed
    before = oracle_of(driver.files)
    disk = driver.files.after_power_loss(random)
    log = driver.open(clean=False, recovery_point=driver.log.recovery_point, files=disk)
    assert log.log_end_offset >= flushed
    check_invariants(log, disk)
    after = oracle_of(disk)
    assert after.records == before.records[: len(after.records)]


@pytest.mark.parametrize("seed", range(20))
def test_unsynced_files_of_a_killed_process_are_synced_by_the_next_one(seed: int) -> None:
    """The broker is killed, restarts and flushes the log. Then the machine loses power."""
    driver = busy()
    driver.kill()
    driver.plain()
    outcome: list[object] = []
    flush(driver.log, outcome.append)
    driver.files.settle()
    assert outcome == [None]
    end = driver.log.log_end_offset
    assert driver.log.recovery_point == end
    disk = driver.files.after_power_loss(Random(seed))
    log = driver.open(clean=False, recovery_point=end, files=disk)
    assert log.log_end_offset == end
    check_invariants(log, disk)
