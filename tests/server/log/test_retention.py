"""Deletion by time, by size and by DeleteRecords (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import deleted_directory
from tests.server.log.driver import (
    DIRECTORY,
    MANY,
    NOW_MS,
    Driver,
    apply_retention,
    delete_records_before,
    read_all,
)

DAY_MS = 86_400_000
DEFAULT = LogConfig(file_delete_delay_ms=0)


def bases(driver: Driver) -> list[int]:
    return [segment.base_offset for segment in driver.log.segments]


def days(driver: Driver, count: int) -> Driver:
    """Write one segment a day. The broker's clock moves with the records."""
    for _ in range(count):
        driver.plain(2, timestamp=driver.now_ms)
        driver.log.roll(driver.now_ms)
        driver.now_ms += DAY_MS
    return driver


def names(driver: Driver) -> list[str]:
    driver.files.settle()
    return driver.files.list(DIRECTORY)


def test_retention_ms_deletes_segments_with_a_latest_record_that_is_too_old() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=3 * DAY_MS)), 6)
    assert apply_retention(driver.log, driver.now_ms, MANY) == 3
    assert bases(driver) == [6, 8, 10, 12]
    assert driver.log.log_start_offset == 6
    apply_retention(driver.log, driver.now_ms, MANY)
    assert [name for name in names(driver) if name.endswith(".log")] == [
        f"{base:020d}.log" for base in (6, 8, 10, 12)
    ]
    assert not [name for name in names(driver) if name.startswith(f"{0:020d}")]
    driver.restart()
    assert driver.log.log_start_offset == 6


def test_an_expired_last_segment_is_rolled_and_deleted_too() -> None:
    driver = Driver(replace(DEFAULT, retention_ms=DAY_MS))
    driver.send(1, 0, 3)
    driver.now_ms += DAY_MS + 10
    assert apply_retention(driver.log, driver.now_ms, MANY) == 1
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (3, 3)
    assert bases(driver) == [3]
    assert driver.log.size_bytes == 0
    assert apply_retention(driver.log, driver.now_ms + 10 * DAY_MS, MANY) == 0
    for life in (driver.restart, driver.kill):
        life()
        assert driver.log.log_end_offset == 3
        assert driver.send(1, 0, 3).duplicate
    assert driver.send(1, 3, 1).base_offset == 3


def test_no_record_above_the_high_watermark_is_deleted() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=DAY_MS)), 6)
    assert apply_retention(driver.log, driver.now_ms, 5) == 2
    assert bases(driver)[0] == 4


def test_retention_bytes_keeps_at_least_that_much() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=-1)), 6)
    size = driver.log.segments[0].size
    driver.log.reconfigure(replace(driver.config, retention_ms=-1, retention_bytes=3 * size + 1))
    assert apply_retention(driver.log, driver.now_ms, MANY) == 2
    assert driver.log.size_bytes == 4 * size
    assert apply_retention(driver.log, driver.now_ms, MANY) == 0


@pytest.mark.parametrize(("excess", "deleted"), [(-1, 2), (0, 2), (1, 1)])
def test_segments_are_deleted_down_to_exactly_retention_bytes(excess: int, deleted: int) -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=-1)), 6)
    limit = 4 * driver.log.segments[0].size + excess
    driver.log.reconfigure(replace(driver.config, retention_ms=-1, retention_bytes=limit))
    assert apply_retention(driver.log, driver.now_ms, MANY) == deleted


@pytest.mark.parametrize(("age_ms", "deleted"), [(DAY_MS, 0), (DAY_MS + 1, 1)])
def test_a_record_as_old_as_retention_ms_stays(age_ms: int, deleted: int) -> None:
    driver = Driver(replace(DEFAULT, retention_ms=DAY_MS))
    driver.plain(1)
    assert apply_retention(driver.log, NOW_MS + age_ms, MANY) == deleted


def test_without_limits_and_in_compacted_topics_everything_stays() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=-1)), 3)
    assert apply_retention(driver.log, driver.now_ms + 999 * DAY_MS, MANY) == 0
    compact = replace(DEFAULT, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    driver.log.reconfigure(compact)
    assert apply_retention(driver.log, driver.now_ms, MANY) == 0


def test_files_of_deleted_segments_stay_for_their_delay() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=DAY_MS, file_delete_delay_ms=500)), 3)
    apply_retention(driver.log, driver.now_ms, MANY)
    assert f"{0:020d}.log.deleted" in names(driver)
    apply_retention(driver.log, driver.now_ms + 499, MANY)
    assert f"{0:020d}.log.deleted" in names(driver)
    apply_retention(driver.log, driver.now_ms + 500, MANY)
    assert f"{0:020d}.log.deleted" not in names(driver)


def test_timestamps_of_the_future_keep_only_their_own_segment() -> None:
    driver = Driver(replace(DEFAULT, retention_ms=DAY_MS, message_timestamp_after_max_ms=1 << 50))
    days(driver, 2)
    driver.plain(1, timestamp=driver.now_ms + 900 * DAY_MS)
    driver.log.roll(driver.now_ms)
    days(driver, 3)
    apply_retention(driver.log, driver.now_ms, MANY)
    assert bases(driver)[0] == 4


def test_delete_records_moves_the_start_and_drops_whole_segments() -> None:
    driver = days(Driver(DEFAULT), 3)
    delete_records_before(driver.log, 3, driver.now_ms)
    assert driver.log.log_start_offset == 3
    assert bases(driver) == [2, 4, 6]
    assert [record.offset for record in read_all(driver.log)] == [3, 4, 5]
    delete_records_before(driver.log, 1, driver.now_ms)
    assert driver.log.log_start_offset == 3
    delete_records_before(driver.log, 6, driver.now_ms)
    assert bases(driver) == [6]
    with pytest.raises(OffsetOutOfRange):
        delete_records_before(driver.log, 7, driver.now_ms)
    driver.restart()
    assert driver.log.log_start_offset == 6


def test_a_log_wholly_below_its_start_continues_with_an_empty_segment_at_the_start() -> None:
    driver = Driver(DEFAULT)
    driver.send(1, 0, 5)
    driver.files = driver.files.after_kill()
    driver.log = driver.open(clean=False, log_start_offset=9)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (9, 9)
    assert driver.plain(2).base_offset == 9
    driver.kill()
    assert [record.offset for record in read_all(driver.log)] == [9, 10]


def test_a_deleted_partition_is_renamed_and_takes_no_record() -> None:
    driver = days(Driver(DEFAULT), 2)
    gone = deleted_directory("topic", 0, bytes(range(16)))
    driver.log.rename_directory(gone)
    assert not driver.files.exists(DIRECTORY)
    assert driver.files.exists(gone)
    with pytest.raises(StorageError):
        driver.plain()


def test_a_response_from_a_deleted_partition_sends_no_record_of_a_new_log(tmp_path: Path) -> None:
    """The new topic has the name of the deleted one, and may have other readers."""
    gone = deleted_directory("topic", 0, bytes(range(16)))
    with ThreadPoolExecutor(1) as executor:
        files: Any = OsFiles(str(tmp_path), executor=executor, call_on_loop=lambda done: done())
        driver = Driver(DEFAULT, files)
        driver.send(1, 0, 5)
        sent = driver.log.segments.active.log
        before = sent.read(0, sent.size)
        driver.log.rename_directory(gone)
        Driver(DEFAULT, files).send(2, 0, 5)
        assert sent.read(0, sent.size) == before
        files.close()
