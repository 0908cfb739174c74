"""Opens a log (Kafka's LogLoader). After a clean stop the files are valid. After any other stop,
recovery scans them (`recovery.py`).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from oncelog_protocol.types import uuid_to_string
from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    decode_partition_metadata,
    encode_partition_metadata,
)
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.damage import check_segments, front_was_durable, lost_its_front
from oncelog_server.log.epoch_recovery import load_leader_epochs, trim_leader_epochs
from oncelog_server.log.errors import CorruptLog, InconsistentTopicId
from oncelog_server.log.leftovers import covered, sweep
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.producer_snapshot import Snapshots
from oncelog_server.log.producers import Producers
from oncelog_server.log.recovery import recover
from oncelog_server.log.replay import aborted_rows, rebuild
from oncelog_server.log.segment import Segment
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
        recover(loaded)
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
