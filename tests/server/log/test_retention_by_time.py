"""`retention.ms` counts from the latest timestamp in a segment, wherever its record is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_server.log.config import LogConfig
from tests.server.log.driver import MANY, NOW_MS, Driver, apply_retention

RETENTION_MS = 1_000
CONFIG = LogConfig(
    retention_ms=RETENTION_MS, file_delete_delay_ms=0, message_timestamp_after_max_ms=MANY
)
YOUNG_MS = 400


@pytest.mark.parametrize("index_interval_bytes", [4_096, 0])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("times_ms", [(0, YOUNG_MS), (YOUNG_MS, 0), (0, YOUNG_MS, 0)])
def test_the_age_of_a_segment_is_that_of_its_latest_record(
    times_ms: tuple[int, ...], restarted: bool, index_interval_bytes: int
) -> None:
    driver = Driver(replace(CONFIG, index_interval_bytes=index_interval_bytes))
    for time_ms in times_ms:
        driver.plain(timestamp=NOW_MS + time_ms)
    driver.log.roll(driver.now_ms)
    driver.plain(timestamp=NOW_MS + 10 * RETENTION_MS)
    if restarted:
        driver.restart()
    due_ms = NOW_MS + YOUNG_MS + RETENTION_MS
    assert apply_retention(driver.log, due_ms, MANY) == 0
    assert apply_retention(driver.log, due_ms + 1, MANY) == 1
    assert driver.log.log_start_offset == len(times_ms)
