"""A topic-partition: its leadership, high watermark, last stable offset and waiting requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import BatchHeader
from oncelog_server.deferred import Deferred
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.deletion import apply_retention, delete_records_before
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.producers import NONE, ProducerEntry
from oncelog_server.log.results import CLIENT, Appended, FileRange, Flush, Origin
from oncelog_server.log.timestamps import Search
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.log.validation import BatchRules, PreparedBatch
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition_read import PartitionRead
from oncelog_server.partition.refused_sequences import RefusedSequences
from oncelog_server.partition.traffic import PartitionTraffic
from oncelog_server.partition.verification import VerificationGuards
from oncelog_server.partition.waiting import CommitWaiters, ParkedRequests, Settled
from oncelog_server.refusal import Refused
from oncelog_server.replica.state import Replicas
from oncelog_server.slices import Steps
from oncelog_server.storage.files import File, StorageError
from oncelog_server.topic_partition import TopicPartition

StorageFailure: TypeAlias = StorageError | CorruptLog


def _ignore(partition: Partition, failure: StorageFailure) -> None:
    pass


def _do_nothing(partition: Partition) -> None:
    pass


class Partition:
    """A topic-partition. Code outside of this package uses the partition's log only through this
    class, except the cleaner (`log_to_clean`).

    With `flush_on_ack` (oncelog.flush.on.ack), the high watermark does not move at the append, but
    in `on_flushed`. The same is true for an append after which flush.messages requires a flush. In
    both cases the partition calls `request_flush`, and `finish_flush` and `on_flushed` must be
    called after the flush. `on_storage_error` is called for every `read` and append that fails with
    a StorageFailure. A failed fsync, of any caller, takes the partition offline (`on_offline`).

    Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.
    """

    __slots__ = ("_flush_on_ack", "_flush_requested", "_log", "_request_flush", "clean_part",
                 "commit_waiters", "deletion_waiters", "follower_waiters", "guards",
                 "high_watermark", "is_leader", "leader_epoch", "leader_id", "leads", "offline",
                 "on_offline", "on_storage_error", "read_waiters", "refused_sequences", "replicas",
                 "topic_id", "topic_partition", "traffic")  # fmt: skip

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        log: PartitionLog,
        request_flush: Callable[[Partition], None],
        *,
        flush_on_ack: bool = False,
        on_storage_error: Callable[[Partition, StorageFailure], None] = _ignore,
        on_offline: Callable[[Partition], None] = _do_nothing,
        high_watermark: int | None = None,
    ) -> None:
        """`high_watermark` is that of the last checkpoint. None: the whole log is committed,
        because it has no other replica."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self._log = log
        self.clean_part = log.clean_part
        log.refusals.report_failure_to(lambda error: self.fail(str(error)))
        self.leader_id = -1
        self.leader_epoch = -1
        # `leads` is True while the metadata says that this broker is the leader. `is_leader` is
        # also False between `suspend` and `resume`, when the broker does not act as the leader.
        self.is_leader = self.leads = False
        # The reason why the partition serves no requests any more, such as a failed disk. None
        # while the partition is online.
        self.offline: str | None = None
        self.commit_waiters = CommitWaiters()
        self.read_waiters = ParkedRequests()
        # Fetches of followers, which an append wakes. None before the first such Fetch.
        self.follower_waiters: ParkedRequests | None = None
        # DeleteRecords that wait for followers. None before the first such request.
        self.deletion_waiters: ParkedRequests | None = None
        # Verifications in flight, of transactions without AddPartitionsToTxn (KIP-890).
        self.guards = VerificationGuards()
        self.refused_sequences = RefusedSequences()
        self.on_storage_error = on_storage_error
        self.on_offline = on_offline
        self._request_flush = request_flush
        self._flush_on_ack = flush_on_ack
        # True while an append has to wait for a flush. With `flush_on_ack`, this is always True.
        self._flush_requested = flush_on_ack
        self.replicas = Replicas(log.config.min_insync_replicas)
        # An attribute, because every append and read uses it. Only this class sets it.
        at = log.log_end_offset if high_watermark is None else high_watermark
        self.high_watermark = max(min(at, log.log_end_offset), log.log_start_offset)
        self.traffic = PartitionTraffic()

    def _refused(self, failure: StorageFailure) -> Refused:
        self.on_storage_error(self, failure)
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))

    # --- leadership

    def become_leader(
        self,
        broker_id: int,
        leader_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        partition_epoch: int = -1,
        *,
        has_elr: bool = False,
        is_suspended: bool = False,
    ) -> None:
        """Serve as the leader. A stale leader epoch is ignored. A new leader keeps its high
        watermark until the ISR has fetched in the new epoch. `has_elr`: see `Replicas.update`. With
        `is_suspended`, serve only after `resume`."""
        if leader_epoch < self.leader_epoch:
            return
        if leader_epoch > self.leader_epoch or not self.leads:
            self._log.assign_leader_epoch(leader_epoch)
            self.replicas.lead(broker_id, self._log.log_end_offset)
        self.replicas.update(isr, replicas, partition_epoch, has_elr=has_elr)
        self.leader_id, self.leader_epoch = broker_id, leader_epoch
        self.leads = True
        self.is_leader = not is_suspended
        self.recompute_high_watermark()
        # A follower that has left the ISR joins again by fetching this partition. The wake puts the
        # partition into the follower's next Fetch.
        self.read_waiters.wake_all()

    def become_follower(self, leader_id: int, leader_epoch: int) -> None:
        if leader_epoch < self.leader_epoch:
            return
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.resign()

    def resign(self) -> None:
        """Stop serving. Requests with records that are not committed yet end with
        NOT_LEADER_OR_FOLLOWER, and parked fetches wake."""
        self.is_leader = self.leads = False
        self.commit_waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake_readers()

    def retire(self) -> None:
        """Serve no new request, because the topic is deleted. The caller must call `resign`."""
        self.is_leader = self.leads = False
        self.clean_part.leave()

    def suspend(self) -> None:
        """Do not act as the leader until `resume`, because the cluster may have elected another
        leader. The high watermark does not move, and requests with records that are not committed
        yet wait until the metadata says which broker leads."""
        self.is_leader = False

    def resume(self) -> None:
        """Act as the leader again, if the metadata still says that this broker is the leader."""
        self.is_leader = self.leads
        self.recompute_high_watermark()

    def fail(self, reason: str) -> None:
        """Take the partition offline after a storage error. Refuse all requests, and acknowledge no
        waiting request (S16). Nothing changes if it is offline already."""
        if self.offline is not None:
            return
        self.offline = reason
        try:
            self.on_offline(self)
            self.commit_waiters.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        finally:
            self._wake_readers()

    def _wake_readers(self) -> None:
        try:
            self.read_waiters.wake_all()
        finally:
            if self.deletion_waiters is not None:
                self.deletion_waiters.wake_all()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise Refused unless the partition is online, and this broker leads it in the client's
        leader epoch (KIP-320). The epoch is -1 if the client sent none."""
        if self.offline is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        if not self.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != -1 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
            raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_in_sync_replicas(self) -> None:
        """Raise Refused if too few replicas are in sync for acks=all."""
        if self.replicas.is_under_min_isr:
            in_sync, required = len(self.replicas.isr), self.replicas.effective_min_isr
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"{in_sync} in sync, {required} required")

    # --- watermarks

    @property
    def last_stable_offset(self) -> int:
        """The end for read_committed readers. Below this offset, all transactions are decided and
        all records are committed."""
        unstable = self._log.first_unstable_offset(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        return max(min(self.high_watermark, unstable), self._log.log_start_offset)

    def end_offset(self, isolation: Isolation) -> int:
        """Return the first offset that a reader of this isolation may not see."""
        if isolation is Isolation.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Return the offset below which all records are on disk."""
        return self._log.recovery_point

    @property
    def is_committed(self) -> bool:
        """True if the high watermark is at the log end."""
        return self.high_watermark >= self._log.segments.active.end_offset

    def on_flushed(self, log_end_offset: int) -> None:
        """Advance the leader's high watermark: all records below `log_end_offset` are on disk."""
        if self.offline is not None:
            return  # A successful flush after a failed flush proves nothing (S16).
        log_end_offset = min(log_end_offset, self._log.log_end_offset)
        unflushed = self._log.log_end_offset - log_end_offset
        if not self._flush_on_ack and unflushed < self._log.config.flush_messages:
            self._flush_requested = False
            log_end_offset = self._log.log_end_offset
        if self.is_leader:
            self._advance(log_end_offset)

    def recompute_high_watermark(self) -> None:
        """Advance the leader's high watermark after a change of the ISR or of a follower's log end.
        If the ISR is now below the min ISR, end the waits of producers
        (`CommitWaiters.end_under_min_isr`)."""
        if not self.is_leader:
            return
        log = self._log
        waits_for_flush = self._flush_on_ack or self._flush_requested
        self._advance(log.recovery_point if waits_for_flush else log.log_end_offset)
        if self.replicas.is_under_min_isr:
            self.commit_waiters.end_under_min_isr()

    def follow_high_watermark(self, high_watermark: int) -> None:
        """Advance a follower's high watermark to the leader's, at most to the follower's log end.
        After a truncation, move it back to the log end."""
        log = self._log
        known = min(max(high_watermark, self.high_watermark), log.log_end_offset)
        self.high_watermark = max(known, log.log_start_offset)
        self._log.producers.on_high_watermark(self.high_watermark)

    def _advance(self, high_watermark: int) -> None:
        if not self.replicas.is_alone:
            high_watermark = self.replicas.high_watermark(self.high_watermark, high_watermark)
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            producers = self._log.producers
            if producers.decided:
                producers.on_high_watermark(high_watermark)
            try:
                if self.commit_waiters.waiting:
                    self.commit_waiters.advance(high_watermark)
            finally:
                if self.read_waiters.wakes:
                    self.read_waiters.wake_all()

    def when_committed(self, end_offset: int, settled: Settled, *, needs_isr: bool = False) -> None:
        """Call `settled(NONE)` once all records below `end_offset` are committed, or at once. An
        offline partition commits no further records: `settled(KAFKA_STORAGE_ERROR)`. `needs_isr`:
        see `CommitWaiters.wait`."""
        if self.high_watermark >= end_offset:
            settled(ErrorCode.NONE)
        elif self.offline is not None:
            settled(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self.commit_waiters.wait(end_offset, settled, needs_isr)

    # --- appends

    def append(
        self,
        records: bytearray | memoryview,
        now_ms: int,
        header: BatchHeader | None = None,
        origin: Origin = CLIENT,
        prepared: PreparedBatch | None = None,
    ) -> Appended:
        """Append exactly one batch. The batch is patched in place. Arguments are those of
        PartitionLog.append. Raises Refused with the partition's error code."""
        if not self.is_leader or self.offline is not None:
            self.check_leader()
        try:
            # Positional, here and in Produce: CPython calls a function with keywords more slowly.
            appended = self._log.append(
                records, self.leader_epoch, now_ms, header, origin, prepared
            )
        except StorageError as error:
            raise self._refused(error) from error
        if not appended.duplicate:
            self._appended(appended.last_offset + 1)
        return appended

    def append_decided(self, records: bytearray, count: int, *, now_ms: int) -> int:
        """Append a coordinator's batch outside of any transaction. Return the base offset (see
        PartitionLog.append_decided). Raises Refused."""
        if not self.is_leader or self.offline is not None:
            self.check_leader()
        try:
            base_offset = self._log.append_decided(
                records, count, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
        except StorageError as error:
            raise self._refused(error) from error
        self._appended(base_offset + count)
        return base_offset

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> Appended:
        """End a producer's transaction in this partition. One call writes the marker and the
        txnindex row of an abort, and changes the producer state, so no other code runs in between.
        The last stable offset moves when the high watermark is above the marker. Raises Refused,
        also below the min ISR."""
        if not self.is_leader or self.offline is not None:
            self.check_leader()
        self.check_in_sync_replicas()
        try:
            appended = self._log.append_marker(
                producer_id,
                producer_epoch,
                committed=committed,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
            )
        except StorageError as error:
            raise self._refused(error) from error
        self.guards.clear(producer_id)
        if self.refused_sequences.lowest_by_id:
            self.refused_sequences.forget(producer_id)
        self._appended(appended.last_offset + 1)
        return appended

    def _appended(self, end_offset: int) -> None:
        if self.follower_waiters is not None:
            self.follower_waiters.wake_all()
        log = self._log
        if self._flush_requested or end_offset - log.recovery_point >= log.config.flush_messages:
            self._flush_requested = True
            self._request_flush(self)
        else:
            self._advance(end_offset)

    # --- producers

    def knows_producer(self, producer_id: int) -> bool:
        """Return True if the partition has state of this producer id that is not expired."""
        return self._log.producers.entry(producer_id) is not None

    def latest_producer_id(self) -> int:
        """Return the highest producer id that the partition knows from records, else -1."""
        entries = self._log.producers
        # Markers do not count, because an operator may have written them for any producer id.
        return max((entry.producer_id for entry in entries if entry.batches), default=-1)

    def open_transactions(self) -> list[ProducerEntry]:
        """Return the producers with an open transaction here, in the order of the transactions'
        first offsets."""
        producers = self._log.producers
        found = (
            producers.entry(transaction.producer_id)
            for transaction in producers.ongoing_transactions()
        )
        return [entry for entry in found if entry is not None]

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers without an open transaction that wrote nothing for `expiration_ms`."""
        self._log.producers.expire(now_ms, expiration_ms)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return True if this producer's current transaction already has a batch in this
        partition."""
        entry = self._log.producers.entry(producer_id)
        return (
            entry is not None
            and entry.producer_epoch == producer_epoch
            and entry.current_txn_first_offset != NONE
        )

    # --- reads

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation, *, at_least_one: bool
    ) -> PartitionRead:
        """Return the records from `offset`. `at_least_one`: return a whole batch even if it is
        larger than `max_bytes`, so that every reader makes progress (KIP-74). Raises Refused
        (OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR)."""
        log = self._log
        stable = self.last_stable_offset
        limit = stable if isolation is Isolation.READ_COMMITTED else self.high_watermark
        if offset < log.log_start_offset or (offset >= limit and offset > log.log_end_offset):
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            records: FileRange | None = None
            aborted: list[AbortedTransaction] | None = None
            if isolation is Isolation.READ_COMMITTED:
                aborted = []
            if offset < limit:
                found = log.read(offset, max_bytes, limit=limit, at_least_one=at_least_one)
                records = found.records
                if aborted is not None and records is not None:
                    # The response needs only the aborted transactions with records in this
                    # response. Up to `limit` there may be thousands more.
                    aborted = log.aborted_transactions(offset, found.end_offset)
        except (StorageError, CorruptLog) as error:
            raise self._refused(error) from error
        return PartitionRead(self.high_watermark, stable, log.log_start_offset, records, aborted)

    def cold_range(self, offset: int) -> FileRange | None:
        """Return bytes that a read at `offset` would have to wait for, because they are only on the
        disk. Return None if there are none that are known before the read."""
        try:
            return self._log.reader.cold_range(offset)
        except (StorageError, CorruptLog):
            return None  # the read fails in the same way

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest epoch at or below `epoch`, and the end offset of that epoch. See
        `LeaderEpochs.end_offset_for`, also for an unknown epoch (OffsetForLeaderEpoch)."""
        return self._log.end_offset_for_epoch(epoch)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which `offset` was written, -1 if it is unknown."""
        return self._log.leader_epochs.epoch_at(offset)

    @property
    def latest_leader_epoch(self) -> int:
        """Return the newest leader epoch of the log, -1 if there is none."""
        return self._log.leader_epochs.latest_epoch

    def offset_for_timestamp(self, timestamp: int, limit: int) -> Search:
        """Return the first record below the offset `limit` with `timestamp` (ms) or later, None if
        there is none. Yield after each step. Raises StorageError and CorruptLog."""
        return self._log.offset_for_timestamp(timestamp, limit)

    def max_timestamp_offset(self) -> Search:
        """Return the record with the latest timestamp (KIP-734), None if there is none. Yield after
        each step. Raises StorageError and CorruptLog."""
        return self._log.max_timestamp_offset()

    # --- the log on disk

    @property
    def config(self) -> LogConfig:
        return self._log.config

    @property
    def batch_rules(self) -> BatchRules:
        """The rules for the batches of clients, which depend on the topic's settings."""
        return self._log.rules

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from now on. Raises ValueError for an unknown compression type."""
        self._log.reconfigure(config)
        self.replicas.require(config.min_insync_replicas)
        self.recompute_high_watermark()

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def failure(self) -> StorageError | None:
        """The storage error after which the log takes no append. None if there is no such error."""
        return self._log.failure

    @property
    def refuses_appends(self) -> StorageError | None:
        """The storage error for which the log takes no append at the moment. None if the log takes
        appends."""
        refusals = self._log.refusals
        return (refusals.failure or refusals.current) if refusals.refuses_appends else None

    def try_again(self, now_ms: int) -> None:
        """Retry the writes that the disk has refused. Raises StorageError if the disk refuses them
        again."""
        self._log.try_again(now_ms)

    def log_to_clean(self) -> PartitionLog | None:
        """Return the log for the cleaner. Return None if the log is not compacted, has failed, or
        leaves this broker."""
        log = self._log
        if self.offline is not None or log.failure is not None or log.clean_part.leaves:
            return None
        return log if log.config.is_compacted else None

    def write_leader_epochs(self) -> None:
        """Write the file of the leader epochs now, before the first append of the latest epoch."""
        self._log.write_leader_epochs()

    def apply_retention(self, now_ms: int) -> Steps[int]:
        """Delete the segments that retention does not keep. A segment with records at or above the
        high watermark stays. Return the number of deleted segments. Raises StorageError and
        CorruptLog. The segments that were deleted before the error stay deleted."""
        start_before = self.log_start_offset
        try:
            return (yield from apply_retention(self._log, now_ms, self.high_watermark))
        finally:
            if self.log_start_offset != start_before:
                self.read_waiters.wake_all()

    def claim_flush(self, now_ms: int) -> bool:
        """Return True if `flush.messages` or `flush.ms` require a flush. The caller must then
        request the flush, and the interval of `flush.ms` begins again with this call."""
        if self.offline is not None or not self._log.flush_due(now_ms):
            return False
        self._log.flush_requested(now_ms)
        return True

    def begin_flush(self) -> Flush:
        """Return the files to sync to make the log durable. The caller must then call
        `finish_flush`."""
        return self._log.begin_flush()

    def finish_flush(self, flush: Flush, error: StorageError | None) -> Deferred[bool]:
        """End the flush. After an error, take the partition offline. For the result, see
        PartitionLog.finish_flush."""
        return self._log.finish_flush(flush, error)

    def flushed(self) -> Deferred[bool]:
        """Return True once all present flushes have ended, False if the log has failed."""
        return self._log.flushed()

    def synced(self) -> None:
        """Move the recovery point to the log end, because all appended records are durable."""
        self._log.synced()

    def close(self) -> list[File]:
        """Close the log. Return the files that must be durable before a stop is clean. Raises
        StorageError. The stop is then not clean."""
        return self._log.close(clean=self.offline is None)

    def remembered(self) -> ClosedLog:
        """Return the closed log's line for the file of a clean stop (`log/closed.py`). Raises
        StorageError and CorruptLog."""
        return self._log.remembered()

    def rename_directory(self, deleted_directory: str) -> None:
        """Rename the directory of the deleted partition. Raises StorageError."""
        self._log.rename_directory(deleted_directory)

    def delete_records_before(self, offset: int, now_ms: int) -> Steps[int]:
        """Move the log start up to `offset`, which may be at most the high watermark, in the first
        step (KIP-107). Return the new log start offset. Raises Refused and StorageError."""
        if not 0 <= offset <= self.high_watermark:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            yield from delete_records_before(self._log, offset, now_ms)
        finally:
            self.read_waiters.wake_all()
        return self._log.log_start_offset
