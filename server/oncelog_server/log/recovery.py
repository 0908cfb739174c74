"""Opens a log. After a clean stop the files are valid. After any other stop, recovery scans the
bytes that may not have reached the disk (Kafka's LogLoader; docs/scenarios.md, S1-S18).

Bytes below the recovery point were durable. If these bytes are no valid batches, the load raises
CorruptLog. Above the recovery point, recovery cuts the log at the first invalid batch. The report
names the cut bytes. The load of a coordinator's log raises CorruptLog instead of a cut, if valid
batches follow and no power failure explains the damage.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Final

from oncelog_protocol.types import uuid_to_string
from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    decode_partition_metadata,
    encode_partition_metadata,
)
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.damage import (
    check_segments,
    front_was_durable,
    is_longer_than_written,
    lost_its_end,
    lost_its_front,
    lost_the_end_of_a_batch,
    was_written,
)
from oncelog_server.log.epoch_recovery import (
    load_leader_epochs,
    note_epoch,
    trim_leader_epochs,
)
from oncelog_server.log.errors import CorruptLog, InconsistentTopicId
from oncelog_server.log.leftovers import covered, sweep
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.offset_index import MAX_RELATIVE_OFFSET
from oncelog_server.log.producer_snapshot import Snapshots
from oncelog_server.log.producers import Producers
from oncelog_server.log.replay import aborted_rows, apply_batch, rebuild, replay
from oncelog_server.log.scan import Scan, find_valid_batch
from oncelog_server.log.segment import Segment
from oncelog_server.log.undone_cut import redo_cut
from oncelog_server.log.whole_files import read_whole, write_whole
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    parse_segment_file,
)

# Recovery searches this number of bytes after a cut for a valid batch.
_SEARCHED_BYTES: Final = 1 << 20


def load(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    topic_id: bytes,
    now_ms: int,
    clean_shutdown: bool,
    recovery_point: int,
    log_start_offset: int,
    refuses_damage: bool = False,
    lost_nothing: bool = False,
    topic_id_checked: bool = False,
    closed: ClosedLog | None = None,
) -> LoadedLog:
    """Return the log in `directory`, or a new log. `recovery_point` and `log_start_offset` are
    those of the checkpoints, 0 without a checkpoint. `refuses_damage`: as in LoadedLog.
    `lost_nothing`: the computer was not restarted after the last stop, so no written byte is lost.
    `closed` is this log's line in the file of the last clean stop.

    Raises CorruptLog, InconsistentTopicId and StorageError. If a crash interrupts this work, the
    next start repeats the work.
    """
    if not files.exists(directory):
        files.make_directory(directory)
    names = files.list(directory)
    leftovers = sweep(files, directory, names)
    if leftovers:
        names = files.list(directory)
    segments, snapshots = _list_segments(files, directory, names, now_ms)
    swapped = any(SWAP_SUFFIX in name for name in leftovers)
    loaded = LoadedLog(
        files,
        directory,
        config,
        now_ms,
        segments,
        snapshots,
        Producers(),
        AbortedTransactions(files, directory, partial(aborted_rows, segments, snapshots), names),
        recovery_point,
        log_start_offset,
    )
    loaded.refuses_damage = refuses_damage
    loaded.lost_nothing = lost_nothing
    loaded.report.clean_shutdown = clean_shutdown
    loaded.report.leftovers = leftovers
    if _drop_covered(loaded) or swapped:
        # A power loss may have restored a checkpoint with the sizes of the replaced segments.
        loaded.aborted.sizes.clear()
    _take_remembered(loaded, closed)
    _check_segments(loaded, log_start_offset)
    if not topic_id_checked:
        _check_partition_metadata(loaded, topic_id)
    load_leader_epochs(loaded, names)
    _load_segments(loaded, log_start_offset)
    _trim(loaded)
    loaded.closed_at = _closed_at(loaded)
    return loaded


def _drop_covered(loaded: LoadedLog) -> bool:
    """Remove segments that compaction had replaced and that a power failure has restored. Return
    True if a segment was removed."""
    if not loaded.config.is_compacted or loaded.report.clean_shutdown or loaded.lost_nothing:
        return False
    found = covered(loaded.segments, loaded.aborted.sizes)
    for segment in found:
        loaded.report.leftovers += segment.mark_deleted()
        loaded.segments.remove(segment)
    return bool(found)


def _check_segments(loaded: LoadedLog, log_start_offset: int) -> None:
    """Check for lost segments (`check_segments`). If a power failure has removed the first segment
    of a coordinator's log, delete the other segments: a log has no gaps, so their records are lost
    too."""
    if not lost_its_front(loaded, log_start_offset) or front_was_durable(loaded, log_start_offset):
        check_segments(loaded, log_start_offset)
        return
    first, report = loaded.segments[0], loaded.report
    report.cut_path, report.cut_position = first.log.path, 0
    report.cut_reason = f"the records from offset {log_start_offset} on are missing"
    report.cut_bytes = sum(segment.size for segment in loaded.segments)
    report.valid_batches_followed = report.cut_bytes > 0
    _drop_all(loaded)


def _take_remembered(loaded: LoadedLog, closed: ClosedLog | None) -> None:
    if loaded.report.clean_shutdown:
        loaded.closed = closed
        last_base = loaded.segments[-1].base_offset if loaded.segments else None
        loaded.aborted.after_clean_stop(last_base, closed)


def _load_segments(loaded: LoadedLog, log_start_offset: int) -> None:
    segments = loaded.segments
    if not segments:
        _start_empty(loaded, log_start_offset)
    _set_end_offsets(segments)
    if loaded.report.clean_shutdown:
        _resume(loaded)
    else:
        _recover(loaded)
    _check_recovery_point(loaded)
    if segments[-1].end_offset < log_start_offset:
        _check_log_start(loaded, log_start_offset)
        # Records below the log's start count as deleted, and the log has no other records.
        _drop_all(loaded)
        _start_empty(loaded, log_start_offset)
    loaded.log_start_offset = max(log_start_offset, segments[0].base_offset)


def _closed_at(loaded: LoadedLog) -> int:
    """Return the end offset of the log if all files are as a clean stop leaves them. Otherwise
    return -1."""
    end = loaded.segments[-1].end_offset
    needs_no_snapshot = loaded.report.snapshot_offset == end or _has_no_producers(loaded)
    as_closed = loaded.report.clean_shutdown and needs_no_snapshot
    is_new = end == loaded.segments[0].base_offset and not loaded.producers
    return end if (as_closed or is_new) and not loaded.report.rebuilt else -1


def _check_partition_metadata(loaded: LoadedLog, topic_id: bytes) -> None:
    files, directory = loaded.files, loaded.directory
    path = f"{directory}/{PARTITION_METADATA}"
    data = read_whole(files, path)
    if data is not None:
        try:
            found = decode_partition_metadata(data)
        except MalformedCheckpoint:
            loaded.report.rebuilt.append(PARTITION_METADATA)
        else:
            if found != topic_id:
                raise InconsistentTopicId(
                    directory, uuid_to_string(found), uuid_to_string(topic_id)
                )
            return
    write_whole(files, path, encode_partition_metadata(topic_id))


def _list_segments(
    files: Files, directory: str, names: list[str], now_ms: int
) -> tuple[list[Segment], Snapshots]:
    segments, snapshots = [], []
    for name in names:
        parsed = parse_segment_file(name)
        if parsed is None or parsed.state:
            continue
        if parsed.suffix == LOG_SUFFIX:
            log = files.open(f"{directory}/{name}")
            segments.append(Segment(files, directory, parsed.offset, log, created_ms=now_ms))
        elif parsed.suffix == SNAPSHOT_SUFFIX:
            snapshots.append(parsed.offset)
    segments.sort(key=lambda segment: segment.base_offset)
    return segments, Snapshots(files, directory, snapshots)


def _start_empty(loaded: LoadedLog, offset: int) -> None:
    segment = Segment.create(
        loaded.files, loaded.directory, offset, now_ms=loaded.now_ms, jitter_ms=0
    )
    loaded.segments.append(segment)
    loaded.aborted.start(offset)


def _set_end_offsets(segments: list[Segment]) -> None:
    """Set the end of each segment to the base offset of the next segment. The scan finds the end of
    the last segment."""
    for segment, following in pairwise(segments):
        segment.end_offset = following.base_offset


def _resume(loaded: LoadedLog) -> None:
    """Load the segments after a clean stop. The files are valid then."""
    last = loaded.segments[-1]
    last.resume()
    # Load the txnindex rows now. A later load might compute the row of a new ABORT marker from the
    # log before the row is added, and the row would then be added twice.
    if last.size:
        loaded.aborted.rows(last.base_offset)
    else:
        loaded.aborted.start(last.base_offset)
    if _has_no_producers(loaded):
        return
    rebuilt = rebuild(loaded.producers, loaded.segments, loaded.snapshots, loaded.now_ms)
    loaded.report.snapshot_offset, loaded.report.batches_replayed = rebuilt


def _has_no_producers(loaded: LoadedLog) -> bool:
    """Return True if the last stop was clean, there were no producers, and nothing was appended
    since."""
    closed, last = loaded.closed, loaded.segments[-1]
    if closed is None or closed.producers:
        return False
    return (closed.base_offset, closed.size) == (last.base_offset, last.size)


def _replay(loaded: LoadedLog, segment: Segment, from_offset: int) -> None:
    loaded.report.batches_replayed += replay(loaded.producers, segment, from_offset, loaded.now_ms)


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


def _recover(loaded: LoadedLog) -> None:
    """Scan every segment that may have bytes above the recovery point. This is necessary after an
    unclean stop."""
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
    place = find_valid_batch(tail[1:], segment.base_offset)
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
    """Return True if a power failure explains `tail`. `place` is the position at which valid
    batches begin again: 0 at the start of `tail`, otherwise counted from the second byte. `place`
    is None if `tail` has no valid batch."""
    sizes = loaded.aborted.sizes
    if place == 0:
        return False  # a whole batch with a wrong offset
    if place is None and is_longer_than_written(sizes, segment):
        return True
    if place is None and lost_the_end_of_a_batch(sizes, segment, scan.position, tail):
        return True
    return not was_written(tail if place is None else tail[: place + 1], scan.position)


def _ends_early(loaded: LoadedLog, slot: int) -> bool:
    """Return True if a power failure has removed whole batches at the end of a segment, although
    the next segment exists. Compaction also leaves a gap before the next segment. In a compacted
    log, a gap therefore counts only if the checkpoint shows that bytes are missing
    (`lost_its_end`)."""
    segment, following = loaded.segments[slot], loaded.segments[slot + 1 : slot + 2]
    if not following:
        return False
    if loaded.config.is_compacted and not lost_its_end(loaded.aborted.sizes, segment, following[0]):
        return False
    if not loaded.recovery_point <= segment.end_offset < following[0].base_offset:
        return False
    report = loaded.report
    report.cut_path, report.cut_position = segment.log.path, segment.size
    report.cut_reason = f"the next segment begins at offset {following[0].base_offset}"
    return True


def _drop_after(loaded: LoadedLog, slot: int) -> None:
    """Remove the segments after a cut, because a log has no gaps."""
    for segment in loaded.segments[slot + 1 :]:
        loaded.report.cut_bytes += segment.size
        loaded.report.valid_batches_followed |= segment.size > 0
        loaded.aborted.forget(segment.base_offset)
        loaded.files.remove(segment.mark_deleted())
    del loaded.segments[slot + 1 :]


def _check_recovery_point(loaded: LoadedLog) -> None:
    last = loaded.segments[-1]
    if last.end_offset < loaded.recovery_point:
        raise CorruptLog(
            last.log.path,
            last.size,
            f"the log ends at {last.end_offset}, its recovery point is {loaded.recovery_point}",
        )


def _check_log_start(loaded: LoadedLog, log_start_offset: int) -> None:
    """Raise CorruptLog after a clean stop, if the log ends below its start: the log or the
    checkpoint is damaged, and no file may be deleted. After an unclean stop, a power failure may
    have removed the end of the log. The report then names the whole log as cut off."""
    last, report = loaded.segments[-1], loaded.report
    reason = (
        f"the log ends at offset {last.end_offset}, below its start {log_start_offset} in"
        f" {LOG_START_CHECKPOINT}"
    )
    if report.clean_shutdown:
        raise CorruptLog(last.log.path, last.size, reason)
    report.cut_path, report.cut_position, report.cut_reason = last.log.path, 0, reason
    report.cut_bytes += sum(segment.size for segment in loaded.segments)


def _drop_all(loaded: LoadedLog) -> None:
    """Delete the whole log, with all its state."""
    for segment in loaded.segments:
        loaded.aborted.forget(segment.base_offset)
        loaded.files.remove(segment.mark_deleted())
    loaded.segments.clear()
    loaded.producers.clear()
    loaded.snapshots.keep(())


def _trim(loaded: LoadedLog) -> None:
    """Remove snapshots and leader epochs outside of the log. Of the other snapshots, keep only
    those at the start of a segment, and the newest."""
    first, end = loaded.segments[0].base_offset, loaded.segments[-1].end_offset
    inside = [offset for offset in loaded.snapshots.offsets if first <= offset <= end]
    bases = {segment.base_offset for segment in loaded.segments}
    loaded.snapshots.keep([offset for offset in inside if offset in bases or offset == inside[-1]])
    trim_leader_epochs(loaded)
