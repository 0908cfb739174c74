"""Records are found by their timestamp (ListOffsets)."""

from __future__ import annotations

from msgspec.structs import replace

from oncelog_server.log.config import LogConfig
from tests.server.log.driver import MANY, NOW_MS, Driver

DEFAULT = LogConfig(file_delete_delay_ms=0)


def bases(driver: Driver) -> list[int]:
    return [segment.base_offset for segment in driver.log.segments]


def test_the_latest_timestamp_and_the_first_record_at_a_time_are_found() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=600, index_interval_bytes=100))
    times = [5, 3, 9, 9, 2, 30, 28, 29, 31, 1, 31, 7]
    for time in times:
        driver.plain(2, timestamp=NOW_MS + time * 10)
    assert len(driver.log.segments) > 2
    stamps = [NOW_MS + time * 10 + n for time in times for n in range(2)]
    for life in (lambda: None, driver.restart, driver.kill):
        life()
        log = driver.log
        assert log.max_timestamp_offset() == (max(stamps), stamps.index(max(stamps)), 0)
        for wanted in range(NOW_MS, NOW_MS + 330, 3):
            first = next((n for n, stamp in enumerate(stamps) if stamp >= wanted), None)
            found = log.offset_for_timestamp(wanted, MANY)
            assert found == (None if first is None else (stamps[first], first, 0))
        first = stamps.index(NOW_MS + 300)
        for limit in range(len(stamps)):
            found = log.offset_for_timestamp(NOW_MS + 300, limit)
            assert found == (None if first >= limit else (NOW_MS + 300, first, 0))


def test_records_below_the_log_start_are_not_found_by_their_timestamp() -> None:
    driver = Driver(DEFAULT)
    driver.plain(4)
    driver.log.delete_records_before(2, NOW_MS)
    assert driver.log.offset_for_timestamp(NOW_MS, MANY) == (NOW_MS + 2, 2, 0)


def test_records_without_a_time_are_never_found() -> None:
    driver = Driver(DEFAULT)
    assert driver.log.max_timestamp_offset() is None
    driver.plain(1, timestamp=-1)
    assert driver.log.max_timestamp_offset() is None
    assert driver.log.offset_for_timestamp(0, MANY) is None
