"""The log cuts off the bytes of a refused append. If a power failure undoes the cut, these bytes
follow the last batch of a segment again."""

from __future__ import annotations

import pytest

from oncelog_protocol.records.batch import patch_offsets
from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from tests.server.log.driver import SMALL, Driver, batch, flush, read_all

COMPACTED = LogConfig(
    segment_bytes=2000, index_interval_bytes=200, cleanup_policy=frozenset({"compact"})
)


def rolled(config: LogConfig = SMALL) -> tuple[Driver, str, int]:
    """Return a log with a flushed segment and an empty segment after it, the path of the flushed
    segment, and the recovery point."""
    driver = Driver(config)
    for _ in range(8):
        driver.plain(2)
    flush(driver.log, lambda error: None)
    driver.files.settle()
    driver.log.roll(driver.now_ms)
    (segment, _) = driver.log.segments
    return driver, segment.log.path, driver.log.recovery_point


def refused() -> bytes:
    """Return the refused batch with the offset that it would have had."""
    data = batch(2)
    patch_offsets(data, 0, 16, 0)
    return bytes(data)


def reopened(driver: Driver, recovery_point: int) -> PartitionLog:
    return driver.open(clean=False, recovery_point=recovery_point)


@pytest.mark.parametrize("came_back", [refused()[:59], refused()[:90], refused(), bytes(1000)])
def test_bytes_that_come_back_above_the_recovery_point_are_cut_off_again(came_back: bytes) -> None:
    driver, path, recovery_point = rolled()
    before = read_all(driver.log)
    size = len(driver.files.nodes[path].data)
    driver.files.nodes[path].data += came_back
    log = reopened(driver, recovery_point)
    assert len(driver.files.nodes[path].data) == size
    assert (log.recovery.cut_path, log.recovery.cut_bytes) == (path, len(came_back))
    assert read_all(log) == before
    # The cut is durable with the next flush.
    assert path in [file.path for file in log.begin_flush().files]
    assert not reopened(driver, recovery_point).recovery.cut_path


def test_a_damaged_batch_below_the_recovery_point_is_not_cut_off() -> None:
    driver, path, recovery_point = rolled()
    data = driver.files.nodes[path].data
    size = len(data)
    data[-size // 8 :] = bytes(size // 8)
    log = reopened(driver, recovery_point)
    assert (len(driver.files.nodes[path].data), log.recovery.cut_path) == (size, "")


@pytest.mark.parametrize("extra", [b"", bytes(59)])
def test_the_end_of_a_compacted_segment_is_known_by_its_size(extra: bytes) -> None:
    """Compaction has removed the segment's last batch. So the last offset in the segment is not the
    offset before the next segment, and only the size in the checkpoint shows the segment's end."""
    driver, path, recovery_point = rolled(COMPACTED)
    data = driver.files.nodes[path].data
    last = len(data) // 8
    del data[-last:]
    data += extra
    driver.log.segments.aborted.checkpoint({0: len(data) - len(extra), 16: 0})
    log = reopened(driver, recovery_point)
    assert len(driver.files.nodes[path].data) == 7 * last
    assert [record.offset for record in read_all(log)] == list(range(14))
    assert bool(log.recovery.cut_path) is bool(extra)


@pytest.mark.parametrize("is_older", [True, False])
def test_a_checkpointed_end_before_valid_batches_is_not_used(is_older: bool) -> None:
    """According to the checkpoint, the segment ends at a damaged batch, but valid batches follow.
    The start does not cut there, because the checkpoint may be older than the roll, or wrong."""
    without_index = LogConfig(segment_bytes=2000, index_interval_bytes=2000)
    driver, path, recovery_point = rolled(without_index)
    data = driver.files.nodes[path].data
    batch_bytes = len(data) // 8
    middle = 7 * batch_bytes if is_older else 4 * batch_bytes
    data[middle : middle + batch_bytes] = bytes(batch_bytes)
    sizes = {0: middle} if is_older else {0: middle, 16: 0}
    driver.log.segments.aborted.checkpoint(sizes)
    log = reopened(driver, recovery_point)
    assert (len(driver.files.nodes[path].data), log.recovery.cut_path) == (8 * batch_bytes, "")


def test_bytes_after_the_end_of_a_segment_synced_after_its_roll_are_not_cut_off() -> None:
    """If the recovery point is past the segment's end, the cut is durable. Bytes after the end are
    then damage, and the start does not cut them off."""
    driver, path, _ = rolled()
    driver.plain()
    flush(driver.log, lambda error: None)
    driver.files.settle()
    driver.files.nodes[path].data += refused()[:59]
    log = reopened(driver, driver.log.recovery_point)
    assert not log.recovery.cut_path
