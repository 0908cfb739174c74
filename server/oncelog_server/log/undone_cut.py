"""Repeats a cut that a power failure has undone: the cut after a refused append.

If the disk refuses an append, the log cuts off the bytes that were written, and also the zeros that
probe for space (`Refusals.try_again`). The cut is durable after the next sync of the file. But the
recovery point may already be at the end of the log, if the last batch was synced before the cut.
After a roll, the recovery point is the base offset of the new segment. A start scans only the new
segment, and would leave the bytes in the old segment. Only the segment that ends at the recovery
point can have an undone cut: the recovery point moves on only after another sync of this segment.
"""

from __future__ import annotations

from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.scan import SCAN_CHUNK, WALK_CHUNK, Scan, find_valid_batch
from oncelog_server.log.segment import Segment


def redo_cut(loaded: LoadedLog, segment: Segment, following: Segment) -> None:
    """Cut off the bytes after the last batch of `segment`, if the segment ends at the recovery
    point. `following` is the next segment. Any other damage stays. Raises StorageError."""
    if loaded.lost_nothing or following.base_offset != loaded.recovery_point:
        return
    position = segment.position_near(following.base_offset - 1)
    scan = Scan(segment.log, position, next_offset=segment.base_offset, chunk_size=WALK_CHUNK)
    scan.last_possible_offset = following.base_offset - 1
    for _ in scan:
        pass
    if scan.problem is None:
        return
    if scan.next_offset != following.base_offset and not _ends_at(loaded, scan, segment, following):
        return
    report = loaded.report
    report.cut_path, report.cut_position = segment.log.path, scan.position
    report.cut_bytes = segment.size - scan.position
    report.cut_reason = "a refused append was cut off, and a power failure has brought it back"
    segment.log.truncate(scan.position)
    loaded.unsynced.append(segment.log)


def _ends_at(loaded: LoadedLog, scan: Scan, segment: Segment, following: Segment) -> bool:
    """Return True if the segment ended where the scan ended. Offsets do not show the end, because
    compaction may have removed the last batches. The sizes in txn-index-checkpoint show the end,
    but only if the checkpoint was written at the roll or later: then it also has the next segment.
    A valid batch after this end contradicts the checkpoint."""
    sizes = loaded.aborted.sizes
    if following.base_offset not in sizes or sizes.get(segment.base_offset) != scan.position:
        return False
    tail = segment.log.read(scan.position, SCAN_CHUNK)
    return find_valid_batch(tail[1:], segment.base_offset) is None
