"""The segments at the start of a log are deleted in steps, a few segments in each step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

from oncelog_server.log.config import LogConfig
from oncelog_server.log.deletion import STEP_SEGMENTS, apply_retention, delete_records_before
from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.storage.layout import SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, deleted_directory
from tests.server.log.driver import DIRECTORY, MANY, Driver
from tests.server.partition.partitions import held_by

SEGMENTS = 100
# A segment has at most these files.
STEP_RENAMES = STEP_SEGMENTS * len([*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX])
DEFAULT = LogConfig(file_delete_delay_ms=0)


def rolled(**config: int) -> Driver:
    driver = Driver(replace(DEFAULT, **config))
    for _ in range(SEGMENTS):
        driver.plain()
        driver.log.roll(driver.now_ms)
    driver.files.settle()
    return driver


def renames(driver: Driver) -> int:
    return sum(operation.startswith("rename ") for operation in driver.files.operations)


def renames_of_steps(driver: Driver, steps: Iterator[None]) -> list[int]:
    counts = [renames(driver), *(renames(driver) for _ in steps)]
    return [after - before for before, after in pairwise(counts)]


def test_delete_records_moves_the_start_at_once_and_renames_a_few_files_in_a_step() -> None:
    driver = rolled()
    log = driver.log
    steps = delete_records_before(log, SEGMENTS, driver.now_ms)
    before = renames(driver)
    next(steps)
    assert log.log_start_offset == SEGMENTS
    counts = [renames(driver) - before, *renames_of_steps(driver, steps)]
    assert [segment.base_offset for segment in log.segments] == [SEGMENTS]
    assert len(counts) == -(-SEGMENTS // STEP_SEGMENTS)
    assert max(counts) <= STEP_RENAMES
    assert log.segments.size_bytes == sum(segment.size for segment in log.segments)


@pytest.mark.parametrize("config", [{"retention_ms": 1}, {"retention_bytes": 1}])
def test_retention_renames_a_few_files_in_a_step(config: dict[str, int]) -> None:
    driver = rolled(**config)
    counts = renames_of_steps(driver, apply_retention(driver.log, driver.now_ms + 2, MANY))
    assert len(counts) >= SEGMENTS // STEP_SEGMENTS
    assert max(counts) <= STEP_RENAMES
    assert len(driver.log.segments) <= 2


@pytest.mark.parametrize("work", ["delete records", "retention", "retention below the start"])
def test_a_log_deleted_between_two_steps_renames_no_file_of_a_new_partition(work: str) -> None:
    driver = rolled(retention_bytes=1)
    log = driver.log
    if work == "delete records":
        steps: Iterator[None] = delete_records_before(log, SEGMENTS, driver.now_ms)
    else:
        steps = apply_retention(log, driver.now_ms, MANY)
    if work == "retention below the start":
        log.advance_start(log.segments[STEP_SEGMENTS].base_offset)
    next(steps)
    log.rename_directory(deleted_directory("topic", 0, bytes(16)))
    driver.open(clean=False)
    before = sorted(driver.files.list(DIRECTORY))
    assert list(steps) == []
    assert sorted(driver.files.list(DIRECTORY)) == before


def test_a_follower_moves_its_start_and_leaves_the_rest_to_retention() -> None:
    driver = rolled()
    before = renames(driver)
    follower = FollowerLog(held_by(driver.log))
    follower.follow_leader(SEGMENTS, SEGMENTS, driver.now_ms)
    assert driver.log.log_start_offset == SEGMENTS
    assert 0 < renames(driver) - before <= STEP_RENAMES
    for _ in apply_retention(driver.log, driver.now_ms, SEGMENTS):
        pass
    assert [segment.base_offset for segment in driver.log.segments] == [SEGMENTS]
