"""What goes from the front of a log: by time, by size, by DeleteRecords
(UnifiedLog.deleteOldSegments).

Files are renamed at once and unlinked `file.delete.delay.ms` later, as a reader may still be at
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.log.segment import NO_TIMESTAMP, Segment
from oncelog_server.storage.layout import SEGMENT_SUFFIXES

if TYPE_CHECKING:
    from oncelog_server.log.log import PartitionLog


def delete_records_before(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Raises OffsetOutOfRange for an offset past the end; one below the start changes nothing."""
    if offset > log.log_end_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
    log.undo_interrupted()
    if offset > log.log_start_offset:
        _start_at(log, offset)
    _delete(log, _below_start(log), now_ms)


def apply_retention(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    """How many segments were deleted. Compacted topics keep theirs, but for those below the
    start. Raises StorageError: what could be deleted before is."""
    log.undo_interrupted()
    _remove_due(log, now_ms)
    deleted = _delete(log, _below_start(log), now_ms)
    if log.config.deletes_by_retention:
        deleted += _expire(log, _too_old(log, now_ms, high_watermark), now_ms)
        deleted += _expire(log, _too_many(log, high_watermark), now_ms)
    return deleted


def _start_at(log: PartitionLog, offset: int) -> None:
    log.log_start_offset = offset
    if log.leader_epochs.truncate_from_start(offset):
        log.write_leader_epochs()


def _below_start(log: PartitionLog) -> int:
    """How many segments are wholly below the log's start. Never the last one."""
    count = 0
    for segment in log.segments[:-1]:
        if segment.end_offset > log.log_start_offset:
            break
        count += 1
    return count


def _may_go(log: PartitionLog, segment: Segment, high_watermark: int) -> bool:
    """Nothing at or above the high watermark, and no empty segment at the end."""
    return segment.end_offset <= high_watermark and (segment.size > 0 or segment is not log.active)


def _too_old(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    """Segments whose latest record is older than `retention.ms`. Without timestamps, as old as the
    opening of the log."""
    if log.config.retention_ms < 0:
        return 0
    count = 0
    for segment in log.segments:
        if not _may_go(log, segment, high_watermark):
            break
        latest = segment.latest_timestamp()[0] if segment.size else NO_TIMESTAMP
        if latest == NO_TIMESTAMP:
            latest = segment.created_ms
        if now_ms - latest <= log.config.retention_ms:
            break
        count += 1
    return count


def _too_many(log: PartitionLog, high_watermark: int) -> int:
    """Segments that the log can do without and still be of `retention.bytes` or more."""
    excess = log.size_bytes - log.config.retention_bytes
    if log.config.retention_bytes < 0:
        return 0
    count = 0
    for segment in log.segments:
        excess -= segment.size
        if excess < 0 or not _may_go(log, segment, high_watermark):
            break
        count += 1
    return count


def _expire(log: PartitionLog, count: int, now_ms: int) -> int:
    """Delete the first `count` segments. If that is all of them, a new one comes first."""
    if not count:
        return 0
    if count == len(log.segments):
        log.roll(now_ms)
    _start_at(log, max(log.log_start_offset, log.segments[count].base_offset))
    return _delete(log, count, now_ms)


def _delete(log: PartitionLog, count: int, now_ms: int) -> int:
    """Take the first `count` segments, never the last one, out of the log, with their snapshots."""
    for _ in range(count):
        segment = log.segments[0]
        due_ms = now_ms + log.config.file_delete_delay_ms
        log.deleted.append((due_ms, segment.mark_deleted()))
        names = {segment.log.path, *(segment.path(suffix) for suffix in SEGMENT_SUFFIXES)}
        del log.segments[0]
        log.closed_bytes -= segment.size
        log.reader.forget(segment)
        log.aborted.forget(segment.base_offset)
        log.unsynced = [file for file in log.unsynced if file.path not in names]
    if count:
        first = log.segments[0].base_offset
        log.snapshots.keep([offset for offset in log.snapshots.offsets if offset >= first])
    return count


def _remove_due(log: PartitionLog, now_ms: int) -> None:
    if not log.deleted:
        return
    # A segment whose deletion the disk refused halfway is read under the name of an earlier one.
    used = {segment.log.path for segment in log.segments}
    due = [entry for entry in log.deleted if entry[0] <= now_ms and used.isdisjoint(entry[1])]
    log.deleted = [entry for entry in log.deleted if entry not in due]
    for _, paths in due:
        log.files.remove(paths)
