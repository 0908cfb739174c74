"""`segment.ms` counts from the first record of the segment, whichever process wrote it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from tests.server.log.driver import MANY, NOW_MS, Driver

SEGMENT_MS = 1_000
# The time from the end of a process to the start of the next. It is longer than `segment.ms`.
DOWN_MS = 5 * SEGMENT_MS
CONFIG = LogConfig(
    segment_ms=SEGMENT_MS, file_delete_delay_ms=0, message_timestamp_after_max_ms=MANY
)


@pytest.mark.parametrize(
    ("count", "interval_bytes"),
    [(1, 4_096), (9, 4_096), (9, 0)],
    ids=["one batch", "nine batches, no index entry", "nine batches, an index entry each"],
)
@pytest.mark.parametrize("again", [Driver.restart, Driver.kill], ids=["clean", "killed"])
def test_after_a_restart_a_segment_is_as_old_as_its_first_record(
    count: int, interval_bytes: int, again: Callable[[Driver], PartitionLog]
) -> None:
    driver = Driver(replace(CONFIG, index_interval_bytes=interval_bytes))
    for number in range(count):
        driver.plain(timestamp=NOW_MS + number)
    for _ in range(2):
        driver.now_ms += DOWN_MS
        again(driver)
    driver.plain(timestamp=NOW_MS + SEGMENT_MS)
    assert [segment.base_offset for segment in driver.log.segments] == [0]
    driver.plain(timestamp=NOW_MS + SEGMENT_MS + 1)
    assert [segment.base_offset for segment in driver.log.segments] == [0, count + 1]


def test_after_a_restart_the_last_segment_is_as_old_as_its_own_first_record() -> None:
    driver = Driver(replace(CONFIG, index_interval_bytes=0))
    driver.plain(timestamp=NOW_MS)
    driver.log.roll(driver.now_ms)
    for number in range(5):
        driver.plain(timestamp=NOW_MS + 500 + number)
    driver.restart()
    driver.plain(timestamp=NOW_MS + 500 + SEGMENT_MS)
    assert [segment.base_offset for segment in driver.log.segments] == [0, 1]
    driver.plain(timestamp=NOW_MS + 501 + SEGMENT_MS)
    assert [segment.base_offset for segment in driver.log.segments] == [0, 1, 7]


def test_an_empty_segment_is_not_rolled_after_its_time() -> None:
    driver = Driver(CONFIG)
    driver.restart()
    driver.now_ms += DOWN_MS
    driver.plain(timestamp=-1)
    assert [segment.base_offset for segment in driver.log.segments] == [0]
