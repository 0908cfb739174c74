"""Closing of a segment or a whole log: writes indexes and the producers' state, and returns the
files that must be durable before the close counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.results import Flush
from oncelog_server.log.segment import Segment
from oncelog_server.storage.files import File

if TYPE_CHECKING:
    from oncelog_server.log.log import PartitionLog


def roll(log: PartitionLog, now_ms: int) -> None:
    """See PartitionLog.roll. All that the disk may refuse comes before the first change."""
    old = log.active
    if not old.size:
        return
    log.refusals.write_owed()
    old.write_indexes()
    # With the new segment, whose base offset is the end of the old one.
    sizes = {segment.base_offset: segment.size for segment in log.segments}
    log.aborted.checkpoint({**sizes, old.end_offset: 0})
    closed = old.files()
    new = Segment.create(
        log.files,
        log.directory,
        old.end_offset,
        now_ms=now_ms,
        jitter_ms=log.jitter(log.config.segment_jitter_ms),
    )
    log.aborted.start(new.base_offset)
    log.segments.append(new)
    log.active = new
    log.closed_bytes += old.size
    log.rolled_bytes += old.size
    log.reader.keep_indexes(old)
    log.take_snapshot()
    log.unsynced += closed
    flush = Flush(list(log.unsynced), new.base_offset)
    log.files.sync(flush.files, lambda error: log.finish_flush(flush, error))


def close(log: PartitionLog) -> list[File]:
    """What must be durable before a stop is clean. Raises StorageError."""
    log.undo_interrupted()
    log.raise_failure()
    if log.log_end_offset == log.closed_at:
        return log.take_unsynced()
    log.refusals.write_owed()
    log.active.write_indexes(may_be_left_out=True)
    if not log.aborted.is_checkpointed(segment.base_offset for segment in log.segments[:-1]):
        log.aborted.checkpoint({segment.base_offset: segment.size for segment in log.segments})
    if log.producers:
        log.take_snapshot()
    return [*log.take_unsynced(), *log.active.files()]


def remembered(log: PartitionLog) -> ClosedLog:
    """What a clean stop remembers of a closed log."""
    last = log.active
    aborted, rows_crc = log.aborted.sum_of(last.base_offset)
    return ClosedLog(last.base_offset, last.size, aborted, rows_crc, len(log.producers))
