"""Computes how many segments at the start of a log can be deleted, by the log start offset, the age
of the records, or the size of the log (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from oncelog_server.log.segment import NO_TIMESTAMP, Segment


def below_start(segments: Sequence[Segment], log_start_offset: int, most: int) -> int:
    """Return the number of segments that are wholly below the log's start, at most `most`. The
    active segment does not count."""
    count = 0
    for segment in islice(segments, min(most, len(segments) - 1)):
        if segment.end_offset > log_start_offset:
            break
        count += 1
    return count


def too_old(
    segments: Sequence[Segment], retention_ms: int, now_ms: int, high_watermark: int, most: int
) -> int:
    """Return the number of segments at the start of the log with only records that are older than
    `retention_ms` and below the high watermark, at most `most`. The age of a segment without
    timestamps counts from its creation, or from the last opening of the log. Raises StorageError
    and CorruptLog."""
    if retention_ms < 0:
        return 0
    count = 0
    for segment in islice(segments, most):
        if not _may_go(segments, segment, high_watermark):
            break
        latest = segment.latest_timestamp()[0] if segment.size else NO_TIMESTAMP
        if latest == NO_TIMESTAMP:
            latest = segment.created_ms
        if now_ms - latest <= retention_ms:
            break
        count += 1
    return count


def too_many(
    segments: Sequence[Segment], retention_bytes: int, high_watermark: int, most: int
) -> int:
    """Return the number of segments that can be deleted so that the log keeps at least
    `retention_bytes`, at most `most`."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    for segment in islice(segments, most):
        excess -= segment.size
        if excess < 0 or not _may_go(segments, segment, high_watermark):
            break
        count += 1
    return count


def _may_go(segments: Sequence[Segment], segment: Segment, high_watermark: int) -> bool:
    """Return True if the segment has no record at or above the high watermark, and is not an empty
    active segment."""
    return segment.end_offset <= high_watermark and (
        segment.size > 0 or segment is not segments[-1]
    )
