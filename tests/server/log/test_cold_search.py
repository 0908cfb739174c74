"""A search by time yields the bytes that are only on the disk before it reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.look_ahead import LOOK_AHEAD_BYTES, LookAhead
from oncelog_server.log.results import FileRange, TimestampOffset
from oncelog_server.log.timestamps import Search
from oncelog_server.slices import at_its_end
from tests.server.log.driver import MANY, NOW_MS, Driver
from tests.server.storage.memory_files import MemoryFiles

SEARCHES: dict[str, Callable[[PartitionLog], Search]] = {
    "the first record": lambda log: log.offset_for_timestamp(NOW_MS, MANY),
    "in the middle": lambda log: log.offset_for_timestamp(NOW_MS + 151, MANY),
    "the last record": lambda log: log.offset_for_timestamp(NOW_MS + 291, MANY),
    "none": lambda log: log.offset_for_timestamp(NOW_MS + 1_000, MANY),
    "the latest time": lambda log: log.max_timestamp_offset(),
}


class SlowDisk(MemoryFiles):
    """A disk that notes the reads that had to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def before_read(self, path: str) -> None:
        super().before_read(path)
        if path in self.cold:
            self.waits.append(path)


def found(search: Search, files: SlowDisk) -> TimestampOffset | None:
    """Return the result of a search that waits for the bytes that it yields."""
    while True:
        try:
            cold = next(search)
        except StopIteration as ended:
            result: TimestampOffset | None = ended.value
            return result
        if cold is not None:
            cold.prefetch(lambda: None)
            files.settle()


def written() -> tuple[Driver, SlowDisk]:
    """Return a log of several segments that was opened again, with all bytes only on the disk."""
    files = SlowDisk()
    config = LogConfig(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)
    driver = Driver(config, files)
    for number in range(30):
        driver.plain(2, timestamp=NOW_MS + 10 * number)
    driver.restart()
    files.cold |= set(files.nodes)
    files.waits.clear()
    return driver, files


@pytest.mark.parametrize("name", SEARCHES)
def test_no_read_of_a_search_waits_for_the_disk(name: str) -> None:
    warm, _ = written()
    driver, files = written()
    expected = at_its_end(SEARCHES[name](warm.log))
    assert found(SEARCHES[name](driver.log), files) == expected
    assert not files.waits
    assert files.prefetched


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_loads_no_index_that_the_log_does_not_free(name: str) -> None:
    driver, files = written()
    found(SEARCHES[name](driver.log), files)
    kept = {*driver.log.segments._indexed.values(), driver.log.segments.active}
    assert {segment for segment in driver.log.segments if segment._offset_index} <= kept
    assert {segment for segment in driver.log.segments if segment._time_index} <= kept


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_ends_although_its_bytes_leave_the_page_cache_again(name: str) -> None:
    driver, files = written()
    files.has_short_memory = True
    warm, _ = written()
    assert found(SEARCHES[name](driver.log), files) == at_its_end(SEARCHES[name](warm.log))
    assert files.waits
    assert len(files.prefetched) < 10 * len(files.nodes)


def test_a_walk_over_old_records_looks_ahead_many_times() -> None:
    """The records were written again with their old times, so no index entry is near."""
    files = SlowDisk()
    driver = Driver(LogConfig(index_interval_bytes=1, file_delete_delay_ms=0), files)
    driver.plain(timestamp=NOW_MS + 50)
    for _ in range(30):
        driver.plain(size=LOOK_AHEAD_BYTES // 4)
    driver.plain(timestamp=NOW_MS + 100)
    log = driver.log.segments.active.log.path
    files.cold.add(log)
    files.has_short_memory = True
    search = driver.log.offset_for_timestamp(NOW_MS + 60, MANY)
    assert found(search, files) == (NOW_MS + 100, 31, 0)
    assert 7 <= files.prefetched.count(log) <= 12


def test_a_large_batch_is_looked_for_as_a_whole() -> None:
    files = SlowDisk()
    driver = Driver(LogConfig(file_delete_delay_ms=0), files)
    size = driver.log.size_bytes
    driver.plain(20, size=LOOK_AHEAD_BYTES // 4)
    size = driver.log.size_bytes - size
    log = driver.log.segments.active.log
    files.cold.add(log.path)
    files.has_short_memory = True
    ranges = [cold for cold in driver.log.offset_for_timestamp(NOW_MS + 19, MANY) if cold]
    assert [(cold.position, cold.length) for cold in ranges] == [
        (0, LOOK_AHEAD_BYTES),  # the header of the batch
        (0, size),
    ]


class Cached:
    """A file. Bytes from `cold_from` on are only on the disk."""

    def __init__(self, size: int, cold_from: int) -> None:
        self.size = size
        self.cold_from = cold_from
        self.asked: list[tuple[int, int]] = []

    def is_cached(self, position: int, size: int) -> bool:
        self.asked.append((position, size))
        return position + size <= self.cold_from


@given(
    sizes=st.lists(st.integers(1, 3 * LOOK_AHEAD_BYTES), max_size=20),
    cold_from=st.integers(0, 10 * LOOK_AHEAD_BYTES),
)
def test_each_byte_of_a_walk_is_looked_for_once(sizes: list[int], cold_from: int) -> None:
    file = Cached(sum(sizes), cold_from)
    ahead = LookAhead(file)  # type: ignore[arg-type]
    position = 0
    for size in sizes:
        cold = ahead.cold(position, size)
        assert ahead.cold(position, size) is None
        if cold is not None:
            assert isinstance(cold, FileRange)
            assert cold.position == position
            assert cold.position + cold.length > cold_from
        position += size
        known = max((at + length for at, length in file.asked), default=0)
        assert known >= position
    assert all(at + length <= file.size for at, length in file.asked)
    assert len(file.asked) <= len(sizes)


def test_small_batches_are_looked_for_together() -> None:
    file = Cached(4 * LOOK_AHEAD_BYTES, 4 * LOOK_AHEAD_BYTES)
    ahead = LookAhead(file)  # type: ignore[arg-type]
    for position in range(0, file.size, 64):
        assert ahead.cold(position, 64) is None
    assert len(file.asked) == 4
