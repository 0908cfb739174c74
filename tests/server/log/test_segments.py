"""Adding a segment to a log, or removing it, changes all state that the log keeps of the
segment."""

from __future__ import annotations

import pytest

from oncelog_server.storage.files import StorageError
from tests.server.log.driver import Driver, busy
from tests.server.log.test_refused_files import Full


def rolled(count: int) -> Driver:
    """Return a log of `count` segments with a batch each, and an empty active segment."""
    driver = Driver()
    for _ in range(count):
        driver.plain(2)
        driver.log.roll(driver.now_ms)
    return driver


def test_the_size_is_the_sum_of_the_segments_after_any_change() -> None:
    driver = rolled(5)
    segments = driver.log.segments
    appended = segments.appended_bytes
    assert segments.size_bytes == sum(segment.size for segment in segments) == appended
    segments.remove_first(2, driver.now_ms)
    assert [segment.base_offset for segment in segments] == [4, 6, 8, 10]
    assert segments.size_bytes == sum(segment.size for segment in segments)
    assert segments.appended_bytes == appended


def test_files_of_a_removed_segment_are_not_synced_any_more() -> None:
    driver = rolled(3)
    segments = driver.log.segments
    first = segments[0].path(".log")
    assert first in {file.path for file in segments.unsynced}
    segments.remove_first(1, driver.now_ms)
    left = {file.path for file in segments.unsynced}
    assert {first, segments[0].path(".log")} & left == {segments[0].path(".log")}
    assert not [path for path in left if path.endswith(".deleted")]


def test_a_segment_that_cannot_be_renamed_stays_in_the_log() -> None:
    driver = rolled(4)
    segments = driver.log.segments
    Full(driver.files, f"{segments[1].base_offset:020d}.log$", 0)
    with pytest.raises(StorageError):
        segments.remove_first(3, driver.now_ms)
    assert [segment.base_offset for segment in segments] == [2, 4, 6, 8]
    assert segments.size_bytes == sum(segment.size for segment in segments)


def test_a_roll_that_the_disk_refuses_changes_nothing() -> None:
    driver = Driver()
    driver.plain(2)
    segments = driver.log.segments
    Full(driver.files, f"{2:020d}.log$", 0)
    with pytest.raises(StorageError):
        segments.roll(driver.now_ms, 0)
    assert len(segments) == 1
    assert segments.active is segments[0]
    assert (segments.size_bytes, list(segments.unsynced)) == (segments[0].size, [])


def test_the_indexes_of_only_some_inactive_segments_stay_in_memory() -> None:
    driver = Driver()
    for _ in range(20):
        driver.plain()
        driver.plain()
        driver.log.roll(driver.now_ms)
    for offset in range(1, 40, 2):
        assert driver.log.read(offset, 1, limit=40, at_least_one=True).records is not None
    indexed = [segment for segment in driver.log.segments if segment._offset_index is not None]
    assert [segment.base_offset for segment in indexed] == [*range(24, 40, 2), 40]


def test_nothing_is_kept_in_memory_of_a_removed_segment() -> None:
    driver = busy()
    segments = driver.log.segments
    first = segments[0]
    assert driver.log.read(first.end_offset - 1, 1, limit=first.end_offset).end_offset == -1
    assert driver.log.aborted_transactions(0, segments.active.end_offset)
    assert first.base_offset in segments._indexed
    assert first.base_offset in segments.aborted._loaded
    segments.remove_first(1, driver.now_ms)
    assert first.base_offset not in segments._indexed
    assert first.base_offset not in segments.aborted._loaded


def test_segments_are_found_by_their_offsets() -> None:
    segments = busy().log.segments
    for slot, segment in enumerate(segments):
        for offset in (segment.base_offset, segment.end_offset - 1):
            assert segments.from_offset(offset) == segments[slot:]
