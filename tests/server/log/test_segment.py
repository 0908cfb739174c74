"""The conditions that roll a segment, and the contents of its index files (Kafka's LogSegment)."""

from __future__ import annotations

import queue
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oncelog_protocol.records.batch import split_batches
from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.operating_system.os_files import OsFiles
from tests.server.log.driver import (
    DIRECTORY,
    MANY,
    NOW_MS,
    Driver,
    batch,
    check_invariants,
    flush,
)

DEFAULT = LogConfig(file_delete_delay_ms=0)


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


def test_a_segment_is_rolled_by_the_timestamps_of_its_records() -> None:
    driver = Driver(replace(DEFAULT, segment_ms=1000, message_timestamp_after_max_ms=MANY))
    driver.plain(1, timestamp=NOW_MS)
    driver.now_ms += 5000
    driver.plain(1, timestamp=NOW_MS + 1000)
    assert bases(driver) == [0]
    driver.plain(1, timestamp=NOW_MS + 1001)
    assert bases(driver) == [0, 2]


def test_without_record_timestamps_a_segment_is_rolled_by_its_own_age() -> None:
    driver = Driver(replace(DEFAULT, segment_ms=1000))
    driver.plain(1, timestamp=-1)
    driver.now_ms += 1001
    driver.plain(1, timestamp=-1)
    assert bases(driver) == [0, 1]


def test_jitter_rolls_a_segment_earlier() -> None:
    driver = Driver(replace(DEFAULT, segment_ms=1000, segment_jitter_ms=600))
    drawn: list[int] = []

    def jitter(most: int) -> int:
        drawn.append(most)
        return 500

    log = PartitionLog.open(
        driver.files, "other-0", driver.config, topic_id=bytes(16), now_ms=NOW_MS,
        clean_shutdown=False, recovery_point=0, log_start_offset=0,
        jitter=jitter,
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


def test_a_batch_gets_an_index_entry_if_more_than_the_interval_follows_the_last_one() -> None:
    size = len(batch(1))
    driver = Driver(replace(DEFAULT, index_interval_bytes=2 * size))
    for _ in range(8):
        driver.plain(1)
    driver.restart()  # a restart keeps the position of the last entry
    for _ in range(4):
        driver.plain(1)
    driver.stop()
    entries = list(struct.iter_unpack(">ii", content(driver, 0, ".index")))
    assert entries == [(n, n * size) for n in (3, 6, 9)]


def test_offsets_that_do_not_fit_an_index_roll_the_segment() -> None:
    driver = Driver(DEFAULT)
    driver.plain()
    segment = driver.log.segments.active
    assert not segment.should_roll(100, NOW_MS, 2**31 - 1, NOW_MS, DEFAULT)
    assert segment.should_roll(100, NOW_MS, 2**31, NOW_MS, DEFAULT)


def test_an_empty_segment_is_never_rolled() -> None:
    driver = Driver(DEFAULT)
    driver.log.roll(NOW_MS)
    assert bases(driver) == [0]


def test_index_files_have_kafka_s_format() -> None:
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


def test_a_txnindex_row_has_kafka_s_format() -> None:
    driver = Driver(DEFAULT)
    driver.send(9, 0, 1, transactional=True)
    driver.send(8, 0, 1, transactional=True)
    driver.mark(9, committed=False)
    driver.mark(8, committed=False)
    rows = list(struct.iter_unpack(">hqqqq", content(driver, 0, ".txnindex")))
    assert rows == [(0, 9, 0, 2, 1), (0, 8, 1, 3, 4)]


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
    driver.log.flush_requested(NOW_MS + after_ms)
    flush(driver.log, lambda error: None)
    driver.files.settle()
    assert driver.log.recovery_point == appends
    assert not driver.log.flush_due(NOW_MS + after_ms)


def test_a_log_with_many_segments_keeps_at_most_two_files_open(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        events: queue.Queue[Callable[[], None]] = queue.Queue()
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=events.put)
        log = PartitionLog.open(
            files, DIRECTORY, replace(DEFAULT, segment_bytes=1000), topic_id=bytes(16),
            now_ms=NOW_MS, clean_shutdown=False, recovery_point=0, log_start_offset=0,
        )  # fmt: skip
        for n in range(60):
            data = batch(
                producer_id=1, producer_epoch=0, base_sequence=n, is_transactional=True, size=50
            )
            log.append(data, leader_epoch=0, now_ms=NOW_MS)
            log.append_marker(
                1, 0, committed=False, coordinator_epoch=0, transaction_version=1,
                leader_epoch=0, now_ms=NOW_MS,
            )  # fmt: skip
        assert len(log.segments) > 8
        while log.recovery_point < log.segments.active.base_offset:
            events.get(timeout=60)()
        assert files.open_descriptors <= 2
        log.close(clean=True)
        assert files.open_descriptors == 0


def test_a_closed_timeindex_ends_with_the_latest_timestamp_of_the_segment() -> None:
    driver = Driver(DEFAULT)
    driver.plain(3)
    driver.plain(1)
    driver.log.roll(driver.now_ms)
    assert content(driver, 0, ".index") == b""
    rows = list(struct.iter_unpack(">qi", content(driver, 0, ".timeindex")))
    assert rows == [(NOW_MS + 2, 2)]
