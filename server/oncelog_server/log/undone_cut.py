"""The cut of a refused append that a power failure has undone.

If the disk refuses an append, the bytes that it took are cut off again, and so are those that ask
for space (`Refusals.try_again`). The file with the cut is durable after its next sync. But if the
disk already had the last batch, the recovery point is at the end of the log. When the log is then
rolled, it is the base offset of the new segment, and a start scans the segments from there on. Only
the segment that ends at the recovery point can be in this state: to pass it, the recovery point
needs another sync of that segment.
"""

from __future__ import annotations

from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.scan import SCAN_CHUNK, WALK_CHUNK, Scan, find_valid_batch
from oncelog_server.log.segment import Segment


def redo_cut(loaded: LoadedLog, segment: Segment, following: Segment) -> None:
    """Cut off what follows the last batch of `segment`, the one before `following`, if it ends at
    the recovery point. Any other damage is left as it is. Raises StorageError."""
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
    """Return True if the segment ended where the scan did, although its last offsets are missing:
    compaction removes such batches. The checkpoint of sizes shows the end if it is not older than
    the roll, which adds the new segment to it. A valid batch behind that end contradicts it."""
    sizes = loaded.aborted.sizes
    if following.base_offset not in sizes or sizes.get(segment.base_offset) != scan.position:
        return False
    tail = segment.log.read(scan.position, SCAN_CHUNK)
    return find_valid_batch(tail[1:], segment.base_offset) is None
