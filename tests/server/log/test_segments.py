"""When a segment is rolled, what its index files hold (Kafka's LogSegment, OffsetIndex, TimeIndex),
and what is removed by time and size (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.records.batch import read_header, split_batches
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.log.log import PartitionLog
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import deleted_directory
from tests.server.log.driver import DIRECTORY, MANY, NOW_MS, Driver, check_invariants, read_all

DEFAULT = LogConfig(file_delete_delay_ms=0)
DAY_MS = 86_400_000


def bases(driver: Driver) -> list[int]:
    return [segment.base_offset for segment in driver.log.segments]


def content(driver: Driver, base_offset: int, suffix: str) -> bytes:
    return bytes(driver.files.nodes[f"{DIRECTORY}/{base_offset:020d}{suffix}"].data)


def test_a_segment_never_grows_beyond_segment_bytes() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=1000))
    for n in range(30):
        driver.plain(1, size=n * 7)
    assert len(driver.log.segments) > 3
    assert all(segment.size <= 1000 for segment in driver.log.segments)
    check_invariants(driver.log, driver.files)


def test_a_segment_is_rolled_by_the_time_of_its_records() -> None:
    driver = Driver(replace(DEFAULT, segment_ms=1000, message_timestamp_after_max_ms=MANY))
    driver.plain(1, timestamp=NOW_MS)
    driver.now_ms += 5000
    driver.plain(1, timestamp=NOW_MS + 1000)
    assert bases(driver) == [0]
    driver.plain(1, timestamp=NOW_MS + 1001)
    assert bases(driver) == [0, 2]


def test_without_record_times_the_age_of_the_segment_counts() -> None:
    driver = Driver(replace(DEFAULT, segment_ms=1000))
    driver.plain(1, timestamp=-1)
    driver.now_ms += 1001
    driver.plain(1, timestamp=-1)
    assert bases(driver) == [0, 1]


def test_jitter_rolls_earlier() -> None:
    driver = Driver(replace(DEFAULT, segment_ms=1000, segment_jitter_ms=600))
    drawn: list[int] = []

    def jitter(most: int) -> int:
        drawn.append(most)
        return 500

    log = PartitionLog.open(
        driver.files, "other-0", driver.config, topic_id=bytes(16), now_ms=NOW_MS,
        clean_shutdown=False, recovery_point=0, log_start_offset=0,
        producer_id_expiration_ms=1, jitter=jitter,
    )  # fmt: skip
    driver.log = log
    driver.plain(1)
    log.roll(NOW_MS)
    driver.plain(1, timestamp=NOW_MS)
    driver.plain(1, timestamp=NOW_MS + 501)
    assert len(log.segments) == 3
    assert drawn == [600, 600, 600]


def test_a_full_index_rolls_the_segment() -> None:
    driver = Driver(replace(DEFAULT, index_interval_bytes=0, segment_index_bytes=40))
    for n in range(20):
        driver.plain(1, timestamp=NOW_MS + n)
    assert len(driver.log.segments) > 4
    driver.stop()
    for base in bases(driver):
        assert len(content(driver, base, ".index")) <= 40
        assert len(content(driver, base, ".timeindex")) <= 40


def test_offsets_that_do_not_fit_an_index_roll_the_segment() -> None:
    driver = Driver(DEFAULT)
    driver.plain()
    segment = driver.log.active
    assert not segment.should_roll(100, NOW_MS, 2**31 - 1, NOW_MS, DEFAULT)
    assert segment.should_roll(100, NOW_MS, 2**31, NOW_MS, DEFAULT)


def test_an_empty_segment_is_never_rolled() -> None:
    driver = Driver(DEFAULT)
    driver.log.roll(NOW_MS)
    assert bases(driver) == [0]


def test_index_files_are_kafka_s() -> None:
    driver = Driver(replace(DEFAULT, index_interval_bytes=150))
    for n in range(12):
        driver.plain(2, timestamp=NOW_MS + (n * 5) % 30)
    driver.stop()
    log = content(driver, 0, ".log")
    headers = dict(split_batches(log))
    entries = list(struct.iter_unpack(">ii", content(driver, 0, ".index")))
    assert len(entries) > 3
    for offset, position in entries:
        assert headers[position].last_offset == offset
    assert entries == sorted(set(entries))
    by_last_offset = {header.last_offset: header for header in headers.values()}
    times = list(struct.iter_unpack(">qi", content(driver, 0, ".timeindex")))
    latest = max(header.max_timestamp for header in headers.values())
    assert times[-1][0] == latest
    assert times == sorted(set(times))
    for timestamp, offset in times:
        assert by_last_offset[offset].max_timestamp == timestamp
        assert all(
            header.max_timestamp <= timestamp
            for header in headers.values()
            if header.last_offset <= offset
        )


def test_a_txnindex_row_is_kafka_s() -> None:
    driver = Driver(DEFAULT)
    driver.send(9, 0, 1, transactional=True)
    driver.send(8, 0, 1, transactional=True)
    driver.mark(9, committed=False)
    driver.mark(8, committed=False)
    rows = list(struct.iter_unpack(">hqqqq", content(driver, 0, ".txnindex")))
    assert rows == [(0, 9, 0, 2, 1), (0, 8, 1, 3, 4)]


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
        assert log.offset_for_timestamp(NOW_MS + 300, 10) is None


def test_times_below_the_log_s_start_are_not_found() -> None:
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


def test_a_read_is_bounded_by_bytes_but_never_stuck() -> None:
    driver = Driver(DEFAULT)
    for _ in range(5):
        driver.plain(1, size=300)
    log = driver.log
    size = read_header(content(driver, 0, ".log")).size
    assert log.read(0, size - 1, limit=MANY).records is None
    one = log.read(0, size - 1, limit=MANY, at_least_one=True).records
    assert one is not None
    assert len(one) == size
    two = log.read(1, 2 * size, limit=MANY).records
    assert two is not None
    assert len(two.read()) == 2 * size
    cut = log.read(1, 2 * size + 10, limit=MANY).records
    assert cut is not None
    assert len(cut) == 2 * size + 10
    assert log.read(0, 0, limit=MANY).records is None
    assert log.read(5, size, limit=MANY, at_least_one=True).records is None


@pytest.mark.parametrize("offset", [-1, 1, 6])
def test_offsets_outside_of_the_log_are_refused(offset: int) -> None:
    driver = Driver(DEFAULT)
    driver.plain(5)
    driver.log.delete_records_before(2, NOW_MS)
    with pytest.raises(OffsetOutOfRange) as refused:
        driver.log.read(offset, 100, limit=MANY)
    assert (refused.value.log_start_offset, refused.value.log_end_offset) == (2, 5)


def test_a_segment_never_read_twice_from_disk_is_kept_within_bounds() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=300, index_interval_bytes=50))
    for _ in range(40):
        driver.plain(1, size=60)
    driver.restart()
    assert len(driver.log.segments) > 15
    assert len(read_all(driver.log)) == 40
    loaded = [s for s in driver.log.segments if s._offset_index is not None]
    assert len(loaded) <= 9


# Retention.


def days(driver: Driver, count: int) -> Driver:
    """One segment a day; the broker's time is that of the last record."""
    for _ in range(count):
        driver.plain(2, timestamp=driver.now_ms)
        driver.log.roll(driver.now_ms)
        driver.now_ms += DAY_MS
    return driver


def names(driver: Driver) -> list[str]:
    driver.files.settle()
    return driver.files.list(DIRECTORY)


def test_retention_ms_takes_segments_whose_latest_record_is_too_old() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=3 * DAY_MS)), 6)
    assert driver.log.apply_retention(driver.now_ms, MANY) == 3
    assert bases(driver) == [6, 8, 10, 12]
    assert driver.log.log_start_offset == 6
    driver.log.apply_retention(driver.now_ms, MANY)
    assert [name for name in names(driver) if name.endswith(".log")] == [
        f"{base:020d}.log" for base in (6, 8, 10, 12)
    ]
    assert not [name for name in names(driver) if name.startswith(f"{0:020d}")]
    driver.restart()
    assert driver.log.log_start_offset == 6


def test_an_expired_last_segment_is_rolled_and_goes_too() -> None:
    driver = Driver(replace(DEFAULT, retention_ms=DAY_MS))
    driver.send(1, 0, 3)
    driver.now_ms += DAY_MS + 10
    assert driver.log.apply_retention(driver.now_ms, MANY) == 1
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (3, 3)
    assert bases(driver) == [3]
    assert driver.log.size_bytes == 0
    assert driver.log.apply_retention(driver.now_ms + 10 * DAY_MS, MANY) == 0
    for life in (driver.restart, driver.kill):
        life()
        assert driver.log.log_end_offset == 3
        assert driver.send(1, 0, 3).duplicate
    assert driver.send(1, 3, 1).base_offset == 3


def test_nothing_above_the_high_watermark_goes() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=DAY_MS)), 6)
    assert driver.log.apply_retention(driver.now_ms, 5) == 2
    assert bases(driver)[0] == 4


def test_retention_bytes_keeps_at_least_that_much() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=-1)), 6)
    size = driver.log.segments[0].size
    driver.log.reconfigure(replace(driver.config, retention_ms=-1, retention_bytes=3 * size + 1))
    assert driver.log.apply_retention(driver.now_ms, MANY) == 2
    assert driver.log.size_bytes == 4 * size
    assert driver.log.apply_retention(driver.now_ms, MANY) == 0


def test_without_limits_and_in_compacted_topics_everything_stays() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=-1)), 3)
    assert driver.log.apply_retention(driver.now_ms + 999 * DAY_MS, MANY) == 0
    compact = replace(DEFAULT, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    driver.log.reconfigure(compact)
    assert driver.log.apply_retention(driver.now_ms, MANY) == 0


def test_files_of_deleted_segments_stay_for_their_delay() -> None:
    driver = days(Driver(replace(DEFAULT, retention_ms=DAY_MS, file_delete_delay_ms=500)), 3)
    driver.log.apply_retention(driver.now_ms, MANY)
    assert f"{0:020d}.log.deleted" in names(driver)
    driver.log.apply_retention(driver.now_ms + 499, MANY)
    assert f"{0:020d}.log.deleted" in names(driver)
    driver.log.apply_retention(driver.now_ms + 500, MANY)
    assert f"{0:020d}.log.deleted" not in names(driver)


def test_records_times_of_the_future_pin_no_more_than_their_segment() -> None:
    driver = Driver(replace(DEFAULT, retention_ms=DAY_MS, message_timestamp_after_max_ms=1 << 50))
    days(driver, 2)
    driver.plain(1, timestamp=driver.now_ms + 900 * DAY_MS)
    driver.log.roll(driver.now_ms)
    days(driver, 3)
    driver.log.apply_retention(driver.now_ms, MANY)
    assert bases(driver)[0] == 4


def test_delete_records_moves_the_start_and_drops_whole_segments() -> None:
    driver = days(Driver(DEFAULT), 3)
    driver.log.delete_records_before(3, driver.now_ms)
    assert driver.log.log_start_offset == 3
    assert bases(driver) == [2, 4, 6]
    assert [record.offset for record in read_all(driver.log)] == [3, 4, 5]
    driver.log.delete_records_before(1, driver.now_ms)
    assert driver.log.log_start_offset == 3
    driver.log.delete_records_before(6, driver.now_ms)
    assert bases(driver) == [6]
    with pytest.raises(OffsetOutOfRange):
        driver.log.delete_records_before(7, driver.now_ms)
    driver.restart()
    assert driver.log.log_start_offset == 6


def test_a_log_wholly_below_its_start_begins_anew_there() -> None:
    driver = Driver(DEFAULT)
    driver.send(1, 0, 5)
    driver.files = driver.files.after_kill()
    driver.log = driver.open(clean=False, log_start_offset=9)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (9, 9)
    assert driver.plain(2).base_offset == 9
    driver.kill()
    assert [record.offset for record in read_all(driver.log)] == [9, 10]


def test_a_deleted_partition_is_renamed_at_once_and_unlinked_later() -> None:
    driver = days(Driver(DEFAULT), 2)
    gone = deleted_directory("topic", 0, bytes(range(16)))
    driver.log.remove(gone)
    assert not driver.files.exists(DIRECTORY)
    assert driver.files.exists(gone)
    with pytest.raises(StorageError):
        driver.plain()
    driver.files.settle()
    assert not driver.files.exists(gone)


@pytest.mark.parametrize(
    ("settings", "appends", "after_ms", "due"),
    [
        ({}, 5, 10**12, False),
        ({"flush_messages": 3}, 2, 0, False),
        ({"flush_messages": 3}, 3, 0, True),
        ({"flush_ms": 100}, 1, 99, False),
        ({"flush_ms": 100}, 1, 100, True),
        ({"flush_ms": 100}, 0, 100, False),
    ],
)
def test_a_flush_is_due_by_messages_or_time(
    settings: dict[str, Any], appends: int, after_ms: int, due: bool
) -> None:
    driver = Driver(replace(DEFAULT, **settings))
    for _ in range(appends):
        driver.plain()
    assert driver.log.flush_due(NOW_MS + after_ms) is due
    driver.log.flush(lambda error: None, NOW_MS + after_ms)
    driver.files.settle()
    assert driver.log.recovery_point == appends
    assert not driver.log.flush_due(NOW_MS + after_ms)
