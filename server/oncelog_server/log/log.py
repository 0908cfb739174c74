"""The log of one partition: append, read, and the producers and transactions of its records
(Kafka's UnifiedLog). Storage is behind `Files`, time is an argument. No call waits for a sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from oncelog_protocol.records.batch import LENGTH_OVERHEAD, BatchHeader, patch_place
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_server.deferred import Deferred
from oncelog_server.log.clean_part import CleanPart
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.epoch_file import EpochFile
from oncelog_server.log.errors import CorruptLog, OffsetOutOfRange
from oncelog_server.log.flushes import Flushes
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.opening import load
from oncelog_server.log.reading import LogReader
from oncelog_server.log.record_rules import decompressed_limit
from oncelog_server.log.refusals import Refusals
from oncelog_server.log.replay import ProducersAt, apply_batch, producers_at
from oncelog_server.log.replicated import Batches, check_replicated
from oncelog_server.log.results import CLIENT, NO_TIMESTAMP, Appended, Flush, LogRead, Origin
from oncelog_server.log.segments import LogSegments
from oncelog_server.log.timestamps import Search, Timestamps
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.log.validation import BatchRules, PreparedBatch
from oncelog_server.slices import ColdSteps, at_its_end
from oncelog_server.storage.files import File, Files, StorageError
from oncelog_server.storage.layout import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX


class PartitionLog:
    """A log with the offsets `log_start_offset`..`log_end_offset` (exclusive). Only the last
    segment grows.

    After a failed fsync, `failure` is set, and every append raises it. `refusals` has the writes
    that a full disk refused, and retries them. A compaction that renames several files undoes its
    renames if the disk refuses one of them. If the disk refuses the undo too, `failure` is set
    until the undo succeeds. Only this module sets the attributes.
    """

    def __init__(
        self, loaded: LoadedLog, config: LogConfig, now_ms: int, jitter: Callable[[int], int]
    ) -> None:
        self.files: Final = loaded.files
        self.directory: Final = loaded.directory
        self.segments: Final = LogSegments(
            loaded.files, loaded.directory, loaded.segments, loaded.aborted, loaded.unsynced
        )
        self.producers: Final = loaded.producers
        self.snapshots: Final = loaded.snapshots
        self.leader_epochs: Final = loaded.leader_epochs
        # This is an attribute and not a property, because every append and read uses it.
        self.log_start_offset = loaded.log_start_offset
        end_offset = self.segments.active.end_offset
        self.recovery_point = min(loaded.recovery_point, end_offset)
        self.config = config
        self.recovery: Final = loaded.report
        self.refusals: Final = Refusals()
        self.clean_part: Final = CleanPart(loaded.files, loaded.directory)
        self._flushes: Final = Flushes()
        self._epoch_file: Final = EpochFile(
            loaded.files, loaded.directory, loaded.leader_epochs, self.refusals,
            unsynced=loaded.epochs_unsynced,
        )  # fmt: skip
        # The end of the log when it was opened. A view counts the offsets appended since then.
        self.opened_at_offset = end_offset
        self._last_flush_ms = now_ms
        self._jitter = jitter
        # Number of batches of the leader that contradict this follower's state of their producers.
        self.mismatches = 0
        self.reader: Final = LogReader(self.segments, self.producers)
        # If the log still ends at this offset, a close need not write any file.
        self._closed_at = loaded.closed_at
        self.reconfigure(config)
        self.segments.active.jitter_ms = jitter(config.segment_jitter_ms)

    @classmethod
    def open(
        cls,
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
        jitter: Callable[[int], int] = lambda most: 0,
    ) -> PartitionLog:
        """Open the log in `directory`, or create it. `recovery` of the result says what was found.
        Arguments are those of `opening.load`. `topic_id_checked`: partition.metadata was read
        already, and has `topic_id`. `jitter(segment_jitter_ms)` returns a random time by which a
        segment is rolled earlier. Raises CorruptLog, InconsistentTopicId and StorageError."""
        loaded = load(
            files, directory, config, topic_id=topic_id, now_ms=now_ms,
            clean_shutdown=clean_shutdown, recovery_point=recovery_point,
            log_start_offset=log_start_offset, refuses_damage=refuses_damage,
            lost_nothing=lost_nothing, topic_id_checked=topic_id_checked, closed=closed,
        )  # fmt: skip
        return cls(loaded, config, now_ms, jitter)

    def reconfigure(self, config: LogConfig) -> None:
        """Apply new settings. Raises ValueError for an unknown compression type."""
        self.rules = BatchRules(config, self.directory.rpartition("/")[2])
        self.config = config

    @property
    def log_end_offset(self) -> int:
        return self.segments.active.end_offset

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def failure(self) -> StorageError | None:
        """The storage error that every append raises, None without one."""
        return self.refusals.failure

    # Append.

    def append(
        self,
        records: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        header: BatchHeader | None = None,
        origin: Origin = CLIENT,
        prepared: PreparedBatch | None = None,
    ) -> Appended:
        """Append exactly one batch. Its offsets, leader epoch and, with LogAppendTime, time are
        patched in place. `records` must be writable; the log keeps no reference. `header`: the
        header of `records`, if the caller has parsed it. `prepared`: the result of `rules.prepare`,
        which is ignored if the rules have changed since. A duplicate of one of the producer's last
        five batches is not appended again: the result has the original's first offset, and
        `duplicate` is True. Raises AppendError and StorageError; then nothing has changed.
        """
        if self.refusals.failure is not None:
            self.refusals.raise_failure()
        rules = self.rules
        if prepared is not None and prepared.rules is rules:
            header, records = rules.take(prepared, now_ms)
        elif origin is CLIENT:
            header = rules.check(records, now_ms, header)
            if rules.needs_records:
                header, records = rules.convert(records, now_ms, header)
        else:
            header = rules.check_own(records, now_ms)
        has_producer = header.producer_id > -1
        if has_producer:
            repeated = self.producers.check_data(header, from_client=origin is CLIENT)
            if repeated is not None:
                time_ms = repeated.timestamp if rules.log_append_time else NO_TIMESTAMP
                first, last = repeated.first_offset, repeated.last_offset
                return Appended(first, last, time_ms, True, self.log_start_offset)
        segments = self.segments
        base_offset = segments.active.end_offset
        last_offset = base_offset + header.last_offset_delta
        patch_place(records, 0, base_offset, header.batch_length, leader_epoch)
        position = self._write(
            records, base_offset, last_offset, header.max_timestamp, leader_epoch, now_ms
        )
        if has_producer:
            segment = segments.active.base_offset
            self.producers.data_appended(header, base_offset, segment, position, now_ms)
        time_ms = now_ms if rules.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, last_offset, time_ms, False, self.log_start_offset)

    def append_decided(
        self, records: bytearray, count: int, *, leader_epoch: int, now_ms: int
    ) -> int:
        """Append a batch of `count` records of a coordinator, outside of any transaction. Return
        the base offset. Only its size needs a check. Raises AppendError and StorageError."""
        if self.refusals.failure is not None:
            self.refusals.raise_failure()
        rules = self.rules
        if len(records) > rules.own_max_bytes or rules.log_append_time:
            rules.check_own(records, now_ms)
        base_offset = self.segments.active.end_offset
        last_offset = base_offset + count - 1
        patch_place(records, 0, base_offset, len(records) - LENGTH_OVERHEAD, leader_epoch)
        self._write(records, base_offset, last_offset, now_ms, leader_epoch, now_ms)
        return base_offset

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        leader_epoch: int,
        now_ms: int,
    ) -> Appended:
        """Append the COMMIT or ABORT marker of a transaction. After an ABORT marker, also write the
        row of the aborted transaction in the txnindex. A repeated marker is appended again and
        changes nothing else. Raises AppendError with INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED, and StorageError."""
        if self.refusals.failure is not None:
            self.refusals.raise_failure()
        producers = self.producers
        producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        offset = self.segments.active.end_offset
        batch = build_marker_batch(
            EndTransactionMarker(committed, coordinator_epoch), producer_id=producer_id,
            producer_epoch=producer_epoch, timestamp_ms=now_ms, base_offset=offset,
            leader_epoch=leader_epoch,
        )  # fmt: skip
        self._write(batch, offset, offset, now_ms, leader_epoch, now_ms)
        completed = producers.completed_by(producer_id, offset=offset, committed=committed)
        if completed is not None and not committed:
            stable = producers.last_stable_offset_after(completed)
            row = AbortedTransaction(producer_id, completed.first_offset, offset, stable)
            self._note_aborted(row)
        producers.marker_appended(
            producer_id, producer_epoch, coordinator_epoch, completed,
            timestamp=now_ms, now_ms=now_ms,
        )  # fmt: skip
        return Appended(offset, offset, NO_TIMESTAMP, False, self.log_start_offset)

    def append_replicated(self, batches: Batches, *, leader_epoch: int, now_ms: int) -> int:
        """Append batches of the leader to a follower's log, with their offsets and leader epochs.
        Return the new log end offset. An incomplete batch at the end of `batches` is not appended,
        nor are batches from the first with an epoch above `leader_epoch`, the followed epoch.

        Raises CorruptRecords and UnexpectedBatch; then nothing has changed. Raises StorageError;
        then the batches before the refused batch are appended.
        """
        self.refusals.raise_failure()
        end_offset = self.log_end_offset
        self._epoch_file.forget_empty(end_offset)
        latest = self.leader_epochs.latest_epoch
        for batch, header in check_replicated(
            batches, end_offset, latest, leader_epoch, may_skip=self.config.is_compacted
        ):
            epoch, base_offset = header.partition_leader_epoch, header.base_offset
            if not self.config.is_compacted and self.producers.contradicts(header):
                self.mismatches += 1
            position = self._write(
                batch, base_offset, header.last_offset, header.max_timestamp, epoch, now_ms
            )
            row = apply_batch(
                self.producers, self.segments.active.base_offset, position, header,
                partial(bytes, batch), now_ms,
            )  # fmt: skip
            if row is not None:
                self._note_aborted(row)
        return self.log_end_offset

    def _note_aborted(self, row: AbortedTransaction) -> None:
        """Add an ABORT marker's row in memory, and write it to the txnindex, now or at a retry."""
        active, aborted = self.segments.active, self.segments.aborted
        base_offset = active.base_offset
        aborted.add(base_offset, row)
        path = active.path(TXN_INDEX_SUFFIX)
        self.refusals.write_or_owe(path, lambda: aborted.write(base_offset))

    def _write(
        self,
        records: bytearray | memoryview,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> int:
        """Write the batch, with its final offset and leader epoch, at the end of the log. Return
        the batch's position in the active segment."""
        if leader_epoch > self._epoch_file.written_epoch:
            self._epoch_file.note(leader_epoch, base_offset)
        segment, config, size = self.segments.active, self.config, len(records)
        if segment.should_roll(size, max_timestamp, last_offset, now_ms, config):
            try:
                self.roll(now_ms)
            except StorageError as error:
                self.refusals.roll_refused(error)
                raise
            segment = self.segments.active
        file = segment.log
        position = file.size
        try:
            file.append(records)
        except StorageError as error:
            self.refusals.append_refused(error, size)
            raise
        segment.note(position, base_offset, last_offset, max_timestamp, config.index_interval_bytes)
        return position

    def try_again(self, now_ms: int) -> None:
        """Retry the writes that the disk has refused, if any. Raises StorageError if the disk
        refuses them again, and for a `failure`."""
        refusals = self.refusals
        refusals.undo_interrupted()
        refusals.raise_failure()
        refusals.try_again(lambda: self.segments.active.log, lambda: self.roll(now_ms))

    def assign_leader_epoch(self, epoch: int) -> None:
        """Begin `epoch`: from now on, this broker leads and appends. The file of leader epochs is
        written with the first append, because a restart forgets an epoch without records."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def write_leader_epochs(self) -> None:
        """Write the leader epochs, now or at the next retry."""
        self._epoch_file.write()

    # Read.

    def read(
        self, offset: int, max_bytes: int, *, limit: int, at_least_one: bool = False
    ) -> LogRead:
        """Read at most `max_bytes` of batches from `offset` on, all below `limit` (high watermark
        or last stable offset). With `at_least_one`, a first batch above `max_bytes` is read whole.
        A read never crosses into the next segment. Raises OffsetOutOfRange, StorageError and
        CorruptLog.
        """
        if not self.log_start_offset <= offset <= self.segments.active.end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        return self.reader.read(offset, max_bytes, limit, at_least_one)

    def offset_for_timestamp(self, timestamp: int, limit: int) -> Search:
        """Return the first record below `limit` with `timestamp` (ms) or later (ListOffsets), None
        without such a record. Yield after each step."""
        return self._timestamps().first_at(timestamp, limit)

    def max_timestamp_offset(self) -> Search:
        """Return the record with the latest timestamp (ListOffsets -3, KIP-734), None if no record
        has a timestamp. Yield after each step."""
        return self._timestamps().latest()

    def _timestamps(self) -> Timestamps:
        return Timestamps(self.segments, self.log_start_offset, decompressed_limit(self.config))

    # Visibility by transactions.

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the earliest transaction without a marker below
        `high_watermark`, or the log start if that is larger. Return None without such a
        transaction. The last stable offset is the smaller of the result and the high watermark."""
        first = self.producers.first_unstable_offset(high_watermark)
        if first is None or first >= self.log_start_offset:
            return first
        return self.log_start_offset

    def aborted_transactions(
        self, first_offset: int, last_offset_exclusive: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in the range, in the order of their markers
        (KIP-98). Raises StorageError and CorruptLog."""
        segments = self.segments
        bases: Iterable[int] = (segments.active.base_offset,)
        if first_offset < segments.active.base_offset:
            bases = (segment.base_offset for segment in segments.from_offset(first_offset))
        return segments.aborted.collect(bases, first_offset, last_offset_exclusive)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest epoch up to `epoch`, and its end offset (OffsetForLeaderEpoch). See
        `LeaderEpochs.end_offset_for`."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Rolling and durability.

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end of the log; do nothing if the last segment is empty. The
        closed segment is made durable in the background. Raises StorageError; then nothing has
        changed."""
        if not self.segments.active.size:
            return
        self.segments.active.log.trim()
        self.refusals.write_owed()
        self.segments.roll(now_ms, self._jitter(self.config.segment_jitter_ms))
        self.take_snapshot()
        flush = self._flushes.begin(self.segments.begin_flush(growing=False))

        def synced(error: StorageError | None) -> None:
            self.finish_flush(flush, error)

        self.files.sync(flush.files, synced)

    def take_snapshot(self) -> None:
        """Write a snapshot of the producers' state at the log's end, now or at the next retry."""
        self.refusals.write_or_owe(
            f"{self.directory}/{SNAPSHOT_SUFFIX}",
            lambda: self.snapshots.take(self.log_end_offset, self.producers),
            needed=False,
        )

    def flush_due(self, now_ms: int) -> bool:
        """Return True if `flush.messages` or `flush.ms` require a flush."""
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed > 0 and (
            unflushed >= self.config.flush_messages
            or now_ms - self._last_flush_ms >= self.config.flush_ms
        )

    def begin_flush(self) -> Flush:
        """Return the files to sync, for a caller that syncs many logs at once. The caller must call
        `finish_flush` afterwards, also after an error."""
        return self._flushes.begin(self.segments.begin_flush(growing=True))

    def flush_requested(self, now_ms: int) -> None:
        """Restart the interval of `flush.ms`."""
        self._last_flush_ms = now_ms

    def finish_flush(self, flush: Flush, error: StorageError | None) -> Deferred[bool]:
        """End `flush`. After an error, refuse all appends. The result is True if the records below
        the end of `flush` are durable; the recovery point is then at least there. It is False if
        the log has failed or was cut meanwhile. It is complete once all flushes that `flush`
        overlapped have ended (see `Flushes`)."""
        try:
            if error is not None:
                self.refusals.fail(error)
        finally:
            settled = self._flushes.end(flush, lambda: self._counts(flush))
        return settled

    def _counts(self, flush: Flush) -> bool:
        """Return True if the records below the end of `flush` are durable."""
        if self.refusals.has_failed or not self.segments.is_uncut_since(flush):
            return False
        # During an interrupted compaction, the files of `flush` may get their old names again, and
        # need another sync then.
        if self.refusals.failure is None:
            self.segments.finish_flush(flush)
            self.recovery_point = max(self.recovery_point, flush.offset)
        return True

    def flushed(self) -> Deferred[bool]:
        """Return True once all present flushes have ended, False if the log has failed."""
        return self._flushes.after(lambda: not self.refusals.has_failed)

    def synced(self) -> None:
        """Move the recovery point to the log end: all appended records are durable."""
        self.recovery_point = self.log_end_offset

    # Truncation and deletion.

    def lower_recovery_point(self, offset: int, *, restarts: bool = False) -> None:
        """Move the recovery point and the end of the clean part down for a later
        `truncate_to(offset)`, or with `restarts` for a later `restart_at(offset)`. The new recovery
        point may be below `offset`, because `truncate_to` drops whole batches. Between the two
        calls, the caller writes the checkpoints: a start refuses a log that ends below its recovery
        point. Raises StorageError and CorruptLog."""
        if restarts:
            end_offset = min(self.segments[0].base_offset, offset)
        elif offset < self.log_end_offset:
            end_offset = self.segments.cut_at(offset).end_offset
        else:
            return
        self.recovery_point = min(self.recovery_point, end_offset)
        self.clean_part.lower(end_offset)

    def find_cut(self, offset: int) -> None:
        """Find the place of a later `truncate_to(offset)`, which then reads nothing to find it.
        Raises StorageError and CorruptLog."""
        if offset < self.log_end_offset:
            self.segments.cut_at(offset)

    def producers_before(self, offset: int, now_ms: int) -> ColdSteps[ProducersAt | None]:
        """Return the producers' state for a later `truncate_to(offset)`, None if no batch will be
        dropped. Yield after each step. Raises StorageError and CorruptLog."""
        if offset >= self.log_end_offset:
            return None
        end_offset = self.segments.cut_at(offset).end_offset
        steps = producers_at(self.producers, self.segments, self.snapshots, end_offset, now_ms)
        return (yield from steps)

    def truncate_to(self, offset: int, now_ms: int, before: ProducersAt | None = None) -> None:
        """Drop every batch with a record at or above `offset`, in a follower's log that differs
        from the leader's (KIP-101). Call `lower_recovery_point` first. `before`: the result of
        `producers_before`. Raises OffsetOutOfRange if the log would end below its start. Raises
        StorageError and CorruptLog. After the error either nothing is dropped, or `failure` is set,
        and some batches may be missing after a restart."""
        end_before = self.log_end_offset
        if offset >= end_before:
            return
        refusals, segments = self.refusals, self.segments
        refusals.undo_interrupted()
        refusals.raise_failure()
        cut = segments.cut_at(offset)
        if cut.end_offset < self.log_start_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, end_before)
        if before is None or before.end_offset != cut.end_offset:
            before = at_its_end(self.producers_before(offset, now_ms))
            assert before is not None
        self.clean_part.begin_cut(cut.end_offset)
        refusals.write_owed()
        # First remove the snapshots of the dropped batches, because a start would trust them.
        self.snapshots.truncate_from_end(cut.end_offset)
        changed = segments.from_offset(cut.segment.base_offset)
        segments.checkpoint(active=0, without=[segment.base_offset for segment in changed])
        self.recovery_point = min(self.recovery_point, cut.end_offset)
        self._closed_at = -1
        try:
            segments.truncate(cut, self.config.index_interval_bytes)
        except (StorageError, CorruptLog) as error:
            refusals.fail(StorageError("truncate", self.directory, str(error)))
            raise
        self.producers.rewind(*before)
        self.reader.forget_limit()
        self.opened_at_offset -= end_before - cut.end_offset
        self._epoch_file.end_at(cut.end_offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Drop all batches, and begin again at `offset`, because the leader's log has nothing in
        common with this one (Kafka's truncateFullyAndStartAt). Call `lower_recovery_point` first.
        Raises StorageError. Then either nothing is dropped, or `failure` is set."""
        end_before, refusals, segments = self.log_end_offset, self.refusals, self.segments
        refusals.undo_interrupted()
        refusals.raise_failure()
        self.clean_part.begin_cut(min(segments[0].base_offset, offset))
        refusals.write_owed()
        self.snapshots.truncate_from_end(-1)
        segments.checkpoint(active=0, without=[segment.base_offset for segment in segments])
        self._closed_at = -1
        try:
            segments.restart(offset, now_ms, self._jitter(self.config.segment_jitter_ms))
        except StorageError as error:
            refusals.fail(error)
            raise
        self.producers.clear()
        self.reader.forget_limit()
        self.opened_at_offset += offset - end_before
        self.log_start_offset = offset
        self._epoch_file.end_at(0)

    def advance_start(self, offset: int) -> None:
        """Move the start of the log up to `offset`. The records below are deleted, and
        `log/deletion.py` deletes their segments."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epoch_file.start_at(offset)

    def delete_first(self, count: int, now_ms: int) -> None:
        """Delete the first `count` segments, never the last one, with their snapshots. Raises
        StorageError; segments before the failed one stay deleted."""
        self.segments.forget_below(self.log_start_offset)
        self.segments.remove_first(count, now_ms + self.config.file_delete_delay_ms)
        first = self.segments[0].base_offset
        self.snapshots.remove([offset for offset in self.snapshots.offsets if offset < first])

    def rename_directory(self, deleted_directory: str) -> None:
        """Rename the directory of the deleted partition to `deleted_directory` (see
        layout.deleted_directory), and refuse all appends. Raises StorageError."""
        self.refusals.end(StorageError("append", self.directory, "deleted"))
        self.clean_part.leave()
        self.clean_part.end_pass()
        self.segments.close()
        self.files.rename(self.directory, deleted_directory)
        self.segments.renamed(deleted_directory)

    def close(self, *, clean: bool) -> list[File]:
        """Close all descriptors. `clean`: write the state that the next start would otherwise
        compute, and return the files that must be durable before the stop counts as clean.
        With `clean`, raises StorageError, also for an earlier `failure`."""
        segments, refusals = self.segments, self.refusals
        segments.close()
        if not clean:
            return []
        refusals.undo_interrupted()
        refusals.raise_failure()
        segments.active.log.trim()
        if self.log_end_offset == self._closed_at:
            return self._take_unsynced()
        refusals.write_owed()
        segments.active.write_indexes(may_be_left_out=True)
        if not segments.is_checkpointed:
            segments.checkpoint(active=segments.active.size)
        if self.producers:
            self.take_snapshot()
        return [*self._take_unsynced(), *segments.active.files()]

    def _take_unsynced(self) -> list[File]:
        """Return the files that a sync has to include, without those of the active segment. Raises
        StorageError."""
        for file in self._epoch_file.take_unsynced():
            self.segments.add_unsynced(file)
        return list(self.segments.unsynced)

    def remembered(self) -> ClosedLog:
        """Return this closed log's line for the file of a clean stop. Raises StorageError and
        CorruptLog."""
        last = self.segments.active
        aborted, rows_crc = self.segments.aborted.sum_of(last.base_offset)
        return ClosedLog(last.base_offset, last.size, aborted, rows_crc, len(self.producers))
