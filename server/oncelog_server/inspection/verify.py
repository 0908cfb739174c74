"""The check of one partition's files (`oncelog logs verify`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.inspection.findings import (
    CUT_AT_START,
    FINISHED_AT_START,
    ORPHAN,
    REBUILT,
    RESTORE,
    RUN_AGAIN,
    CheckTotals,
    Finding,
    Severity,
)
from oncelog_server.inspection.side_checks import (
    AbortedRows,
    OffsetIndexCheck,
    TimeIndexCheck,
    check_snapshot,
)
from oncelog_server.inspection.walk import Gap, Walk, WalkedBatch
from oncelog_server.log import producer_snapshot
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_partition_metadata
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.producers import Producers
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.log.whole_files import read_whole
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SegmentFile,
    parse_segment_file,
    segment_file,
)

_MARKER_BYTES: Final = 1 << 16
_FOR_EVER_MS: Final = 1 << 62
# The maximum of index.interval.bytes: the index of a smaller segment may be empty.
_INDEX_INTERVAL_BYTES: Final = 1 << 16
_ALL: Final = (1 << 63) - 1


class Facts(NamedTuple):
    """The facts about a partition that the data directory records.

    `running` says that a broker uses the directory now, `clean` that the last broker stopped
    cleanly. `cleaned_offset` returns the offset below which the log is compacted, 0 if it was never
    compacted. `recovery_point` and `log_start_offset` are those of the checkpoints, None without an
    entry.
    """

    running: bool
    clean: bool
    cleaned_offset: Callable[[], int]
    recovery_point: int | None = None
    log_start_offset: int | None = None


class PartitionCheck:
    """The check of one partition: a single pass over its files, in the order of offsets."""

    def __init__(self, files: Files, directory: str, facts: Facts, totals: CheckTotals) -> None:
        self._files = files
        self._directory = directory
        self._facts = facts
        self._totals = totals
        self._producers = Producers()
        # True if `_producers` is the state at the current batch: no earlier batch is missing.
        self._known = True
        self._epochs: LeaderEpochs | None = None
        self._wrong_epoch: int | None = None
        self._latest_epoch = -1
        self._next_offset = 0
        self._first_offset = 0
        self._snapshots: list[int] = []
        self._cleaned_offset = facts.cleaned_offset()

    def _is_cleaned(self, offset: int) -> bool:
        """Return True if the log is compacted up to `offset`. Read the checkpoint again if its last
        value is lower, because a running broker may have compacted the log meanwhile."""
        if self._cleaned_offset < offset:
            self._cleaned_offset = self._facts.cleaned_offset()
        return self._cleaned_offset >= offset

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._directory}/{segment_file(offset, suffix)}"

    def findings(self) -> Iterator[Finding]:
        """Yield the findings. Raises StorageError if the folder cannot be read."""
        names = self._files.list(self._directory)
        parsed = {name: file for name in names if (file := parse_segment_file(name)) is not None}
        in_use = {name: file for name, file in parsed.items() if not file.state}
        bases = sorted(file.offset for file in in_use.values() if file.suffix == LOG_SUFFIX)
        self._totals.partitions += 1
        for name in sorted(parsed.keys() - in_use.keys()):
            if self._facts.running and parsed[name].state == DELETED_SUFFIX:
                continue  # the broker deletes it after file.delete.delay.ms
            what = "left over from a deletion or a compaction"
            yield Finding(Severity.NOTE, f"{self._directory}/{name}", what, FINISHED_AT_START)
        yield from self._orphans(in_use, bases)
        yield from self._small_files(names)
        self._snapshots = sorted(
            file.offset for file in in_use.values() if file.suffix == SNAPSHOT_SUFFIX
        )
        if not bases:
            yield Finding(Severity.DAMAGE, self._directory, "no segment is left", RESTORE)
            return
        yield from self._begin(bases[0])
        for slot, base in enumerate(bases):
            yield from self._segment(base, bases[slot + 1] if slot + 1 < len(bases) else None)
        yield from self._end(bases[-1])

    def _orphans(self, in_use: dict[str, SegmentFile], bases: list[int]) -> Iterator[Finding]:
        for name, file in sorted(in_use.items()):
            if file.suffix not in (LOG_SUFFIX, SNAPSHOT_SUFFIX) and file.offset not in bases:
                what = f"its log file {segment_file(file.offset, LOG_SUFFIX)} is missing"
                yield Finding(Severity.DERIVED, f"{self._directory}/{name}", what, ORPHAN)

    def _small_files(self, names: list[str]) -> Iterator[Finding]:
        path = f"{self._directory}/{PARTITION_METADATA}"
        if PARTITION_METADATA in names:
            try:
                decode_partition_metadata(read_whole(self._files, path) or b"")
            except MalformedCheckpoint as error:
                yield Finding(Severity.DERIVED, path, str(error), REBUILT)
        else:
            yield Finding(Severity.NOTE, path, "the file with the topic id is missing", REBUILT)
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        data = read_whole(self._files, path)
        try:
            epochs = LeaderEpochs.decode(data or b"")
        except MalformedCheckpoint as error:
            yield Finding(Severity.DERIVED, path, str(error), REBUILT)
            return
        self._epochs = epochs if len(epochs) else None

    def _begin(self, base: int) -> Iterator[Finding]:
        """Check the log start. Load the producers' state at the start of the first segment from the
        snapshot there."""
        self._next_offset = self._first_offset = base
        start = self._facts.log_start_offset
        if start is not None and start < base:
            what = f"the log begins at offset {base}, but log-start-offset-checkpoint has {start}"
            yield Finding(Severity.DAMAGE, self._path(base, LOG_SUFFIX), what, RESTORE, 0, base)
        if not base:
            return
        data = read_whole(self._files, self._path(base, SNAPSHOT_SUFFIX))
        try:
            self._producers.load(producer_snapshot.decode(data or b"", _FOR_EVER_MS))
        except ValueError:
            self._known = False

    def _segment(self, base: int, following: int | None) -> Iterator[Finding]:
        path = self._path(base, LOG_SUFFIX)
        try:
            log = self._files.open(path)
        except StorageError as error:
            severity = Severity.NOTE if self._facts.running else Severity.DAMAGE
            yield Finding(severity, path, error.reason, RUN_AGAIN)
            self._known = False
            return
        self._totals.segments += 1
        self._totals.bytes += log.size
        if base != self._next_offset:
            yield from self._jump(base, path)
        if not log.size and following is not None and not self._is_cleaned(following):
            self._known = False
            yield Finding(Severity.DAMAGE, path, "empty, though segments follow it", RESTORE, 0,
                          base)  # fmt: skip
        # The broker writes the indexes of the last segment only at a clean stop; otherwise a start
        # computes them.
        is_written = following is not None or self._facts.clean
        offsets = times = None
        missing: list[Finding] = []
        if is_written:
            offsets, times, missing = self._indexes(base, is_empty=not log.size)
        last_position = 0
        rows = AbortedRows()
        walk = Walk(log, base)
        for part in walk:
            if isinstance(part, Gap):
                yield from self._gap(part, path, is_last=following is None)
                continue
            position, header = part
            last_position = position
            yield from self._snapshots_up_to(header.base_offset)
            yield from self._batch(part, walk, path, rows)
            if offsets is not None:
                offsets.on_batch(position, header.last_offset)
            if times is not None:
                times.on_batch(header.last_offset, header.max_timestamp)
        log.close()
        was_left_out = offsets is None and times is None and following is None
        if not was_left_out or last_position > _INDEX_INTERVAL_BYTES:
            yield from missing
        for check in (offsets, times):
            problem = None if check is None else check.finish()
            if problem is not None:
                yield problem
        yield from self._aborted(base, rows, is_written=is_written)

    def _indexes(
        self, base: int, *, is_empty: bool
    ) -> tuple[OffsetIndexCheck | None, TimeIndexCheck | None, list[Finding]]:
        """Return the checks of both indexes, and findings. A missing index has the check None, and
        a finding unless the segment is empty."""
        missing: list[Finding] = []
        offsets = times = None
        path = self._path(base, OFFSET_INDEX_SUFFIX)
        try:
            offsets = OffsetIndexCheck(self._files.open(path), base)
        except StorageError as error:
            missing.append(Finding(Severity.DERIVED, path, error.reason, REBUILT))
        path = self._path(base, TIME_INDEX_SUFFIX)
        try:
            times = TimeIndexCheck(self._files.open(path), base)
        except StorageError as error:
            missing.append(Finding(Severity.DERIVED, path, error.reason, REBUILT))
        return offsets, times, [] if is_empty else missing

    def _jump(self, base: int, path: str) -> Iterator[Finding]:
        """Check a segment that does not begin where the previous one ends."""
        expected = self._next_offset
        if base > expected and self._is_cleaned(base):
            self._next_offset = base
            return
        self._known = False
        what = (
            f"the segment begins at offset {base}, but the previous segment ends at {expected}:"
            f" {base - expected} offsets are missing"
            if base > expected
            else f"the segment begins at offset {base}, below the previous segment's end {expected}"
        )
        yield Finding(Severity.DAMAGE, path, what, RESTORE, 0, base)
        self._next_offset = base

    def _gap(self, gap: Gap, path: str, *, is_last: bool) -> Iterator[Finding]:
        """Yield the finding about bytes that are no batch. At the end of the log, a crash or a
        running broker may have left part of a batch. Elsewhere the bytes are damage.
        """
        self._known = False
        size, next_offset = gap.end - gap.position, self._next_offset
        recovery_point = self._facts.recovery_point or 0
        if gap.next_offset is not None:
            what = (
                f"{gap.reason}; after {size} bytes, valid batches follow from offset"
                f" {gap.next_offset}: a recovery truncates these batches too"
            )
            yield Finding(Severity.DAMAGE, path, what, RESTORE, gap.position, next_offset)
        elif is_last and self._facts.running:
            what = f"{gap.reason}: the broker may be writing these {size} bytes now"
            yield Finding(Severity.NOTE, path, what, RUN_AGAIN, gap.position, next_offset)
        elif is_last and not self._facts.clean and next_offset >= recovery_point:
            what = f"{gap.reason}; no valid batch follows in the last {size} bytes"
            yield Finding(Severity.NOTE, path, what, CUT_AT_START, gap.position, next_offset)
        else:
            what = f"{gap.reason}; {size} bytes up to the end of the file are no batch"
            yield Finding(Severity.DAMAGE, path, what, RESTORE, gap.position, next_offset)

    def _batch(
        self, batch: WalkedBatch, walk: Walk, path: str, rows: AbortedRows
    ) -> Iterator[Finding]:
        position, header = batch
        self._totals.batches += 1
        base, expected = header.base_offset, self._next_offset
        if base < expected:
            self._known = False
            what = f"offsets {base} to {header.last_offset}, but {expected} or later must follow"
            yield Finding(Severity.DAMAGE, path, what, RESTORE, position, base)
        elif base > expected and not self._is_cleaned(base):
            if self._known:  # otherwise the bytes in between have been reported
                what = f"offsets {expected} to {base - 1} are missing before this batch"
                yield Finding(Severity.DAMAGE, path, what, RESTORE, position, base)
            self._known = False
        self._next_offset = max(expected, header.next_offset)
        yield from self._epoch(header, path, position)
        if header.producer_id < 0:
            return
        if not header.is_control:
            self._producers.data_appended(header, base, 0, position, 0)
            return
        yield from self._marker(batch, walk, path, rows)

    def _epoch(self, header: BatchHeader, path: str, position: int) -> Iterator[Finding]:
        """Check that leader epochs never decrease, and that the checkpoint agrees with them."""
        epoch, offset = header.partition_leader_epoch, header.base_offset
        if epoch < self._latest_epoch:
            what = f"leader epoch {epoch} follows leader epoch {self._latest_epoch}"
            yield Finding(Severity.DAMAGE, path, what, RESTORE, position, offset)
        self._latest_epoch = max(epoch, self._latest_epoch)
        if self._epochs is None or epoch == self._wrong_epoch:
            return
        start = self._facts.log_start_offset or 0
        recorded = self._epochs.epoch_at(offset)
        if recorded != epoch and offset >= start and not self._facts.running:
            self._wrong_epoch = epoch
            checkpoint = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
            what = f"offset {offset} has leader epoch {epoch}, but this file says {recorded}"
            yield Finding(Severity.DERIVED, checkpoint, what, REBUILT, None, offset)

    def _marker(
        self, batch: WalkedBatch, walk: Walk, path: str, rows: AbortedRows
    ) -> Iterator[Finding]:
        header, producers = batch.header, self._producers
        if header.size > _MARKER_BYTES:
            marker, reason = None, f"a control batch of {header.size} bytes"
        else:
            marker, reason = None, ""
            try:
                data = walk.batch_bytes(batch)
                records = read_records(data, max_bytes=_MARKER_BYTES, check_crc=False)
                marker = read_marker(records[0]) if records else None
            except CorruptRecords as error:
                reason = str(error)
        if reason:
            yield Finding(Severity.DAMAGE, path, reason, RESTORE, batch.position,
                          header.base_offset)  # fmt: skip
        if marker is None:
            return
        offset = header.base_offset
        completed = producers.completed_by(
            header.producer_id, offset=offset, committed=marker.committed
        )
        if not marker.committed:
            rows.note_abort(offset)
            if completed is not None:
                stable = producers.last_stable_offset_after(completed)
                rows.note_row(
                    AbortedTransaction(header.producer_id, completed.first_offset, offset, stable)
                )
        producers.marker_appended(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            completed,
            timestamp=header.max_timestamp,
            now_ms=0,
        )
        producers.on_high_watermark(_ALL)

    def _snapshots_up_to(self, offset: int) -> Iterator[Finding]:
        """Check the snapshots at or below `offset`, before the batch at `offset` changes the
        state."""
        while self._snapshots and self._snapshots[0] <= offset:
            at = self._snapshots.pop(0)
            yield from self._snapshot(at)

    def _snapshot(self, offset: int) -> Iterator[Finding]:
        path = self._path(offset, SNAPSHOT_SUFFIX)
        data = read_whole(self._files, path)
        if data is None:
            return  # the broker has deleted it meanwhile
        comparable = self._known and offset == self._next_offset and not self._cleaned_offset
        state = self._producers if comparable and offset > self._first_offset else None
        problem = check_snapshot(path, data, state, self._first_offset)
        if problem is not None:
            yield problem

    def _aborted(self, base: int, rows: AbortedRows, *, is_written: bool) -> Iterator[Finding]:
        recovery_point = self._facts.recovery_point or 0
        will_be_computed = not self._facts.running and not self._facts.clean
        if not self._known or (will_be_computed and self._next_offset > recovery_point):
            return
        path = self._path(base, TXN_INDEX_SUFFIX)
        compacted = self._cleaned_offset > base
        problem = rows.compare(
            path, read_whole(self._files, path), self._next_offset, compacted=compacted
        )
        if problem is not None and (is_written or self._facts.running):
            yield problem

    def _end(self, last_base: int) -> Iterator[Finding]:
        """Check that the log reaches its checkpoints, and that no snapshot or epoch is beyond the
        log's end."""
        end, path = self._next_offset, self._path(last_base, LOG_SUFFIX)
        yield from self._snapshots_up_to(end)
        for offset in self._snapshots:
            if not self._facts.running:
                what = f"taken at offset {offset}, but the log ends at {end}"
                severity = Severity.DERIVED if self._facts.clean else Severity.NOTE
                yield Finding(severity, self._path(offset, SNAPSHOT_SUFFIX), what, ORPHAN)
        if self._facts.running:
            return  # a running broker may have appended since the log was read
        recovery_point, start = self._facts.recovery_point, self._facts.log_start_offset
        if recovery_point is not None and recovery_point > end:
            what = f"the log ends at offset {end}, but was flushed up to {recovery_point} before"
            yield Finding(Severity.DAMAGE, path, what, RESTORE, None, end)
        if start is not None and start > end:
            what = f"the log ends at offset {end}, but log-start-offset-checkpoint has {start}"
            yield Finding(Severity.DAMAGE, path, what, RESTORE, None, end)
        if self._epochs is not None:
            beyond = [entry for entry in self._epochs if entry.start_offset > end]
            if beyond:
                epoch, begins = beyond[0]
                what = f"leader epoch {epoch} begins at offset {begins}, but the log ends at {end}"
                checkpoint = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
                yield Finding(Severity.DERIVED, checkpoint, what, REBUILT)
