"""A roll and a clean stop make the files of a log durable. The log counts the appended bytes."""

from __future__ import annotations

from random import Random

import pytest

from tests.server.log.driver import DIRECTORY, Driver, busy, check_invariants, delete_records_before


def test_a_roll_leaves_indexes_and_a_snapshot_and_makes_the_old_segment_durable() -> None:
    driver = Driver()
    driver.send(7, 0, 3)
    driver.log.roll(driver.now_ms)
    assert driver.log.recovery_point == 0, "the recovery point waits for the sync"
    driver.files.settle()
    assert driver.log.recovery_point == 3
    names = {name.removeprefix(f"{DIRECTORY}/") for name in driver.files.nodes}
    first, second = f"{0:020}", f"{3:020}"
    assert {f"{first}.log", f"{first}.index", f"{first}.timeindex"} <= names
    assert {f"{second}.log", f"{second}.snapshot"} <= names


def test_appended_bytes_are_counted_across_rolls_and_deletions() -> None:
    driver = Driver()
    segments = driver.log.segments
    sizes = []
    for number in (1, 2, 3):
        before = segments.active.size
        driver.plain(size=40 * number)
        sizes.append(segments.active.size - before)
    assert segments.appended_bytes == sum(sizes)
    driver.log.roll(driver.now_ms)
    driver.plain()
    sizes.append(segments.active.size)
    delete_records_before(driver.log, 3, driver.now_ms)
    assert driver.log.log_start_offset == 3
    assert segments.appended_bytes == sum(sizes)


def test_bytes_appended_before_a_restart_are_not_counted() -> None:
    driver = Driver()
    driver.plain(size=500)
    driver.files.settle()
    log = driver.open(clean=False)
    assert (log.segments.appended_bytes, log.opened_at_offset) == (0, 1)


@pytest.mark.parametrize("idle", [False, True], ids=["batch in epoch 7", "epoch 7 without batch"])
def test_the_leader_epochs_are_durable_after_a_clean_stop(idle: bool) -> None:
    """A start after a clean stop trusts the epoch checkpoint, so the checkpoint must not be older
    than the log."""
    driver = Driver()
    driver.plain()
    driver.restart()
    driver.leader_epoch = 7
    if idle:
        driver.log.assign_leader_epoch(7)
        driver.log.write_leader_epochs()
    else:
        driver.plain()
    driver.stop()
    node = driver.files.nodes[f"{DIRECTORY}/leader-epoch-checkpoint"]
    assert node.entry_durable
    assert b"7 1" in node.durable


@pytest.mark.parametrize("seed", range(10))
def test_a_power_loss_after_a_clean_stop_removes_nothing_that_the_next_start_trusts(
    seed: int,
) -> None:
    driver = busy()
    epochs = list(driver.log.leader_epochs)
    point, start = driver.stop()
    disk = driver.files.after_power_loss(Random(seed))
    log = driver.open(clean=True, recovery_point=point, log_start_offset=start, files=disk)
    check_invariants(log, disk)
    assert list(log.leader_epochs) == epochs
