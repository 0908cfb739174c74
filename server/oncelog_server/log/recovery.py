"""Recovery after any stop that was not clean: it scans the bytes that may not have reached the disk
(docs/scenarios.md, S1-S18).

Bytes below the recovery point were durable. If these bytes are no valid batches, recovery raises
CorruptLog. Above the recovery point, it cuts the log at the first invalid batch. The report names
the cut bytes. Recovery of a coordinator's log raises CorruptLog instead of a cut, if valid batches
follow and no power failure explains the damage.
"""

from __future__ import annotations

from typing import Final

from oncelog_server.log.damage import (
    ends_in_zeros,
    is_later_than_checkpoint,
    is_longer_than_written,
    lost_its_end,
    lost_the_end_of_a_batch,
    was_written,
)
from oncelog_server.log.epoch_recovery import note_epoch
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.offset_index import MAX_RELATIVE_OFFSET
from oncelog_server.log.replay import apply_batch, replay
from oncelog_server.log.scan import Scan, find_valid_batch
from oncelog_server.log.segment import Segment
from oncelog_server.log.undone_cut import redo_cut

# Recovery searches this number of bytes after a cut for a valid batch.
_SEARCHED_BYTES: Final = 1 << 20


def recover(loaded: LoadedLog) -> None:
    """Scan every segment that may have bytes above the recovery point. Raises CorruptLog."""
    segments = loaded.segments
    first_scanned = 0
    for slot, segment in enumerate(segments):
        if segment.base_offset <= loaded.recovery_point:
            first_scanned = slot
    if first_scanned:
        redo_cut(loaded, segments[first_scanned - 1], segments[first_scanned])
    scan_base = segments[first_scanned].base_offset
    replay_from = _load_snapshot(loaded, segments[0].base_offset, scan_base)
    for segment in segments[:first_scanned]:
        if segment.end_offset > replay_from:
            _replay(loaded, segment, replay_from)
    for slot in range(first_scanned, len(segments)):
        if _scan_segment(loaded, segments[slot]) or _ends_early(loaded, slot):
            _drop_after(loaded, slot)
            break
    if loaded.report.cut_path or loaded.report.leftovers:
        # This start has cut off or replaced bytes. The next start must not report them as missing.
        loaded.aborted.checkpoint({segment.base_offset: segment.size for segment in segments[:-1]})
    for segment in segments[first_scanned:-1]:
        segment.write_indexes()
        segment.forget_indexes()
        loaded.unsynced += segment.files()


def _load_snapshot(loaded: LoadedLog, first: int, last: int) -> int:
    """Load the newest snapshot in `first`..`last`. Return the offset at which the replay has to
    start."""
    found = loaded.snapshots.newest(first, last, loaded.now_ms)
    if found is None:
        return first
    offset, entries = found
    loaded.producers.load(entries)
    loaded.report.snapshot_offset = offset
    return offset


def _replay(loaded: LoadedLog, segment: Segment, from_offset: int) -> None:
    loaded.report.batches_replayed += replay(loaded.producers, segment, from_offset, loaded.now_ms)


def _scan_segment(loaded: LoadedLog, segment: Segment) -> bool:
    """Check every batch of the segment. Rebuild the indexes of the segment, and apply its batches
    to the producers and the leader epochs. Return True if the segment was cut."""
    report = loaded.report
    segment.start_indexes()
    loaded.aborted.start(segment.base_offset)
    scan = Scan(segment.log, next_offset=segment.base_offset, check_crc=True)
    scan.last_possible_offset = _last_possible_offset(loaded, segment)
    # After a truncation that a power failure has undone, old batches may follow new ones.
    scan.check_epochs, scan.leader_epoch = True, loaded.scanned_epoch
    interval = loaded.config.index_interval_bytes
    appended_from = _appended_from(loaded, segment)
    for position, header in scan:
        if position >= appended_from and header.base_offset != scan.next_offset:
            lost = f"offsets {scan.next_offset}..{header.base_offset - 1} are missing"
            raise CorruptLog(segment.log.path, position, lost)
        segment.note_header(position, header, interval)
        note_epoch(loaded.leader_epochs, header)
        row = apply_batch(
            loaded.producers, segment.base_offset, position, header, scan.batch, loaded.now_ms
        )
        if row is not None:
            loaded.aborted.append(segment.base_offset, row)
    loaded.scanned_epoch = scan.leader_epoch
    report.segments_scanned += 1
    report.bytes_scanned += scan.position
    if scan.problem is None:
        return False
    if segment.end_offset < loaded.recovery_point:
        raise CorruptLog(segment.log.path, scan.position, scan.problem)
    if loaded.refuses_damage:
        _refuse_damage(loaded, segment, scan)
    report.cut_path = segment.log.path
    report.cut_position = scan.position
    report.cut_reason = scan.problem
    report.cut_bytes = segment.size - scan.position
    tail = segment.log.read(scan.position, _SEARCHED_BYTES)
    report.valid_batches_followed = find_valid_batch(tail[1:], segment.end_offset) is not None
    segment.log.truncate(scan.position)
    return True


def _appended_from(loaded: LoadedLog, segment: Segment) -> int:
    """Return the position in a coordinator's segment after which compaction has left no gaps. All
    later batches were appended after the checkpoint. Return the size of the segment if the position
    is unknown. Also return the size if a power failure may have restored an old checkpoint."""
    knows = loaded.refuses_damage and loaded.lost_nothing
    size = loaded.aborted.sizes.get(segment.base_offset) if knows else None
    return segment.size if size is None else size


def _last_possible_offset(loaded: LoadedLog, segment: Segment) -> int:
    following = loaded.segments[loaded.segments.index(segment) + 1 :]
    return following[0].base_offset - 1 if following else segment.base_offset + MAX_RELATIVE_OFFSET


def _refuse_damage(loaded: LoadedLog, segment: Segment, scan: Scan) -> None:
    """Raise CorruptLog if valid batches follow an invalid batch, unless a power failure explains
    the damage."""
    if scan.epoch_fell and not loaded.lost_nothing:
        return  # a power failure has undone a truncation
    tail = segment.log.read(scan.position, _SEARCHED_BYTES)
    # The CRC does not cover the offset of a batch. If the offset of the batch before the invalid
    # batch is damaged, the invalid batch is a whole batch with an offset that seems too small.
    behind = find_valid_batch(tail[1:], segment.base_offset)
    place = None if behind is None else behind + 1
    if place is None and scan.position:
        place = find_valid_batch(tail, segment.base_offset)
    following = loaded.segments[loaded.segments.index(segment) + 1 :]
    if place is None and not any(later.size for later in following):
        return
    if not loaded.lost_nothing and _is_of_a_power_failure(loaded, segment, scan, tail, place):
        return
    raise CorruptLog(
        segment.log.path,
        scan.position,
        f"{scan.problem}; whole batches follow, which may have been acknowledged",
    )


def _is_of_a_power_failure(
    loaded: LoadedLog, segment: Segment, scan: Scan, tail: bytes, place: int | None
) -> bool:
    """Return True if a power failure explains `tail`. `place` is the position in `tail` where valid
    batches begin again, None if `tail` has no valid batch."""
    sizes = loaded.aborted.sizes
    if place == 0:
        return False  # a whole batch with a wrong offset
    if place is None and is_longer_than_written(sizes, segment):
        return True
    if place is None and (
        lost_the_end_of_a_batch(sizes, segment, scan.position, tail)
        or ends_in_zeros(sizes, segment, scan.position, tail)
    ):
        return True
    return not was_written(tail if place is None else tail[:place], scan.position)


def _ends_early(loaded: LoadedLog, slot: int) -> bool:
    """Return True if a power failure has removed whole batches at the end of a segment, although
    the next segment exists. Compaction also leaves a gap before the next segment. In a compacted
    log, a gap therefore counts only if the checkpoint shows that bytes are missing
    (`lost_its_end`), or that compaction has not made the gap (`is_later_than_checkpoint`)."""
    segment, following = loaded.segments[slot], loaded.segments[slot + 1 : slot + 2]
    if not following:
        return False
    if loaded.config.is_compacted and not _is_loss(loaded, segment, following[0]):
        return False
    if not loaded.recovery_point <= segment.end_offset < following[0].base_offset:
        return False
    report = loaded.report
    report.cut_path, report.cut_position = segment.log.path, segment.size
    report.cut_reason = f"the next segment begins at offset {following[0].base_offset}"
    return True


def _is_loss(loaded: LoadedLog, segment: Segment, following: Segment) -> bool:
    sizes = loaded.aborted.sizes
    return lost_its_end(sizes, segment, following) or (
        not loaded.lost_nothing and is_later_than_checkpoint(sizes, following)
    )


def _drop_after(loaded: LoadedLog, slot: int) -> None:
    """Remove the segments after a cut, because a log has no gaps."""
    for segment in loaded.segments[slot + 1 :]:
        loaded.report.cut_bytes += segment.size
        loaded.report.valid_batches_followed |= segment.size > 0
        loaded.aborted.forget(segment.base_offset)
        loaded.files.remove(segment.mark_deleted())
    del loaded.segments[slot + 1 :]
