"""Deletes the segments at the start of a log: by DeleteRecords, by time and by size
(UnifiedLog.deleteOldSegments). A step deletes a few segments, because each segment has several
files to rename. The log may change between two steps."""

from __future__ import annotations

from typing import Final

from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.retention import below_start, too_many, too_old
from oncelog_server.slices import Steps

# Number of segments in one step. A segment takes about 0.1 ms.
STEP_SEGMENTS: Final = 16


def delete_records_before(log: PartitionLog, offset: int, now_ms: int) -> Steps[None]:
    """Move the start of the log up to `offset`, at most the log end, in the first step. Then delete
    the segments wholly below (DeleteRecords). The caller writes the checkpoint before it responds.
    Raises OffsetOutOfRange and StorageError."""
    if offset > log.log_end_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
    log.refusals.undo_interrupted()
    log.advance_start(offset)
    yield from _delete_below_start(log, now_ms)


def apply_retention(log: PartitionLog, now_ms: int, high_watermark: int) -> Steps[int]:
    """Delete segments by `retention.ms` and `retention.bytes`, but none with records at or above
    the high watermark. Without the cleanup policy `delete`, delete only segments below the log
    start. Return the number of deleted segments. Also unlink the files of earlier deletions that
    are due. Raises StorageError and CorruptLog; segments before the failed one stay deleted."""
    log.refusals.undo_interrupted()
    log.segments.remove_due(now_ms)
    deleted = yield from _delete_below_start(log, now_ms)
    while log.failure is None and (count := _expired(log, now_ms, high_watermark)):
        if count == len(log.segments):
            log.roll(now_ms)
        log.advance_start(log.segments[count].base_offset)
        deleted += yield from _delete_below_start(log, now_ms)
    return deleted


def _delete_below_start(log: PartitionLog, now_ms: int) -> Steps[int]:
    """Delete the segments wholly below the start of the log. Return the number of deleted segments.
    If the log fails meanwhile, the other segments stay: the directory of a deleted partition may
    belong to a new partition by then. Raises StorageError; segments before the failed one stay
    deleted."""
    deleted = 0
    while log.failure is None and (
        count := below_start(log.segments, log.log_start_offset, STEP_SEGMENTS)
    ):
        log.delete_first(count, now_ms)
        deleted += count
        yield
    return deleted


def _expired(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    """Return the number of segments that retention deletes next, 0 if it keeps all."""
    segments, config = log.segments, log.config
    if not config.deletes_by_retention:
        return 0
    count = too_old(segments, config.retention_ms, now_ms, high_watermark, STEP_SEGMENTS)
    return count or too_many(segments, config.retention_bytes, high_watermark, STEP_SEGMENTS)
