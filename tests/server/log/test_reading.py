"""What a read gives out, and what it keeps in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_protocol.records.batch import read_header
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import OffsetOutOfRange
from tests.server.log.driver import DIRECTORY, MANY, NOW_MS, Driver, read_all

DEFAULT = LogConfig(file_delete_delay_ms=0)


def bases(driver: Driver) -> list[int]:
    return [segment.base_offset for segment in driver.log.segments]


def content(driver: Driver, base_offset: int, suffix: str) -> bytes:
    return bytes(driver.files.nodes[f"{DIRECTORY}/{base_offset:020d}{suffix}"].data)


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


def test_l11_a_segment_of_which_compaction_left_nothing_is_passed_over() -> None:
    driver = Driver()
    while len(driver.log.segments) < 3:
        driver.plain(1, size=300)
    path = f"{DIRECTORY}/{0:020d}.log"
    point, start = driver.stop()
    del driver.files.nodes[path].data[:]
    driver.log = driver.open(clean=True, recovery_point=point, log_start_offset=start)
    second = bases(driver)[1]
    found = driver.log.read(0, 1, limit=MANY, at_least_one=True).records
    assert found is not None
    assert read_header(found.read()).base_offset == second
