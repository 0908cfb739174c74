"""The results of reads, and the memory that a log keeps for reads."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from oncelog_protocol.records.batch import read_header
from oncelog_server.log.config import LONGEST_INTERVAL, LogConfig
from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.log.scan import WALK_CHUNK
from oncelog_server.settings.model import Settings
from oncelog_server.settings.topics import topic_config
from tests.server.log.driver import (
    DIRECTORY,
    MANY,
    NOW_MS,
    Driver,
    batch,
    delete_records_before,
    read_all,
)
from tests.server.storage import memory_files
from tests.server.storage.memory_files import MemoryFile

DEFAULT = LogConfig(file_delete_delay_ms=0)


def bases(driver: Driver) -> list[int]:
    return [segment.base_offset for segment in driver.log.segments]


def content(driver: Driver, base_offset: int, suffix: str) -> bytes:
    return bytes(driver.files.nodes[f"{DIRECTORY}/{base_offset:020d}{suffix}"].data)


def test_a_read_has_at_most_max_bytes_unless_it_must_return_one_batch() -> None:
    driver = Driver(DEFAULT)
    for _ in range(5):
        driver.plain(1, size=300)
    log = driver.log
    size = read_header(content(driver, 0, ".log")).size
    assert log.read(0, size - 1, limit=MANY).records is None
    batch = log.read(0, size - 1, limit=MANY, at_least_one=True).records
    assert batch is not None
    assert len(batch) == size
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
    delete_records_before(driver.log, 2, NOW_MS)
    with pytest.raises(OffsetOutOfRange) as refused:
        driver.log.read(offset, 100, limit=MANY)
    assert (refused.value.log_start_offset, refused.value.log_end_offset) == (2, 5)


def test_the_memory_of_segments_read_from_disk_is_bounded() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=300, index_interval_bytes=50))
    for _ in range(40):
        driver.plain(1, size=60)
    driver.restart()
    assert len(driver.log.segments) > 15
    assert len(read_all(driver.log)) == 40
    loaded = [s for s in driver.log.segments if s._offset_index is not None]
    assert len(loaded) <= 9


class Counted(MemoryFile):
    """A file that counts the reads and the bytes read from it."""

    reads = 0
    total = 0

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        Counted.reads += 1
        Counted.total += len(data)
        return data


@pytest.mark.parametrize("interval", ["0", "400000", "2147483647"])
def test_h67_a_tiny_fetch_at_any_offset_reads_few_bytes(
    interval: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has one record a batch, closed segments and an active segment, and sparse indexes. It
    was opened again, so the first read of a segment loads its indexes."""
    config = topic_config(
        Settings(), {"index.interval.bytes": interval, "segment.bytes": str(1 << 20)}
    )
    driver = Driver(config)
    data = batch(1, size=0)
    while len(driver.log.segments) < 3 or driver.log.segments.active.size < 1 << 19:
        driver.append(bytearray(data))
    monkeypatch.setattr(memory_files, "MemoryFile", Counted)
    driver.restart()
    log, chosen = driver.log, Random(67)
    for _ in range(300):
        offset = chosen.randrange(log.log_end_offset)
        log.read(offset, 1, limit=MANY)  # load the indexes of a segment that was not read before
        Counted.total = 0
        found = log.read(offset, 1, limit=MANY, at_least_one=True).records
        assert found is not None
        assert len(found) == len(data)
        assert Counted.total <= LONGEST_INTERVAL + 2 * WALK_CHUNK


@pytest.mark.parametrize(("size", "reads"), [(0, 1), (3_000, 2)])
def test_a_fetch_reads_each_header_once(
    size: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small batches, the read that confirms the index entry also has the header of the first
    batch of the result. With large batches, that header is in the next read. To find the last batch
    within `max_bytes`, no further read is needed."""
    driver = Driver(replace(DEFAULT, segment_bytes=1 << 18))
    while len(driver.log.segments) < 3:
        driver.plain(1, size=size)
    monkeypatch.setattr(memory_files, "MemoryFile", Counted)
    log = driver.restart()
    closed_end = bases(driver)[1]
    log.read(1, 1, limit=MANY)  # load the index
    for offset in range(closed_end // 2, closed_end // 2 + 20):
        Counted.reads = 0
        assert log.read(offset, 1 << 16, limit=MANY).records is not None
        assert Counted.reads <= reads


def test_a_read_of_at_most_0_bytes_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=1 << 18))
    while len(driver.log.segments) < 3:
        driver.plain(1)
    monkeypatch.setattr(memory_files, "MemoryFile", Counted)
    log = driver.restart()
    Counted.reads = 0
    assert log.read(bases(driver)[1] // 2, 0, limit=MANY).records is None
    assert Counted.reads == 0


def test_l11_a_segment_emptied_by_compaction_is_skipped() -> None:
    driver = Driver()
    while len(driver.log.segments) < 3:
        driver.plain(1, size=300)
    path = f"{DIRECTORY}/{0:020d}.log"
    point, start = driver.stop()
    del driver.files.nodes[path].data[:]
    del driver.files.nodes[
        f"{DIRECTORY}/txn-index-checkpoint"
    ]  # compaction would write the new size to this checkpoint
    driver.log = driver.open(clean=True, recovery_point=point, log_start_offset=start)
    second = bases(driver)[1]
    found = driver.log.read(0, 1, limit=MANY, at_least_one=True).records
    assert found is not None
    assert read_header(found.read()).base_offset == second
