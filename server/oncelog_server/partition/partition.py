"""A topic-partition: its leadership, high watermark, last stable offset and waiting requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.producers import NONE
from oncelog_server.log.results import Appended, FileRange, Origin
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.partition.refused_sequences import RefusedSequences
from oncelog_server.partition.verification import VerificationGuard, VerificationGuards
from oncelog_server.partition.waiting import CommitWaiters, ReadWaiters, Settled
from oncelog_server.refusal import Refused
from oncelog_server.storage.files import StorageError
from oncelog_server.topic_partition import TopicPartition

StorageFailure: TypeAlias = StorageError | CorruptLog


class Isolation(IntEnum):
    """Codes as on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(slots=True)
class PartitionRead:
    """The part of a Fetch response for one partition. The offsets are those at the time of the
    read."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileRange | None
    aborted: list[AbortedTransaction] | None


def _ignore(partition: Partition, failure: StorageFailure) -> None:
    pass


class Partition:
    """Every append and read of one partition goes through here.

    With `flush_on_ack` (oncelog.flush.on.ack), and where flush.messages asks for it, the high
    watermark moves with `on_flushed` instead of with the append: the partition calls
    `request_flush`, and `on_flushed` or `fail` must follow. `on_storage_error` is called for every
    read and append that failed with a StorageFailure.
    Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.
    """

    __slots__ = (
        "_flush_on_ack",
        "_flush_requested",
        "_high_watermark",
        "_request_flush",
        "bytes_out",
        "commit_waiters",
        "guards",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "offline",
        "on_storage_error",
        "read_waiters",
        "refused_sequences",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        log: PartitionLog,
        request_flush: Callable[[Partition], None],
        *,
        flush_on_ack: bool = False,
        on_storage_error: Callable[[Partition, StorageFailure], None] = _ignore,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_id = -1
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.is_leader = False
        # Why the partition serves nothing any more (a failed disk), or None.
        self.offline: str | None = None
        self.commit_waiters = CommitWaiters()
        self.read_waiters = ReadWaiters()
        self.guards = VerificationGuards()
        self.refused_sequences = RefusedSequences()
        self.on_storage_error = on_storage_error
        self._request_flush = request_flush
        self._flush_on_ack = flush_on_ack
        self._flush_requested = False
        self._high_watermark = log.log_end_offset
        # Bytes of records in Fetch responses, since the start.
        self.bytes_out = 0

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
    ) -> None:
        """Serve as the leader. A leader epoch older than the known epoch is ignored."""
        if leader_epoch < self.leader_epoch:
            return
        if leader_epoch > self.leader_epoch or not self.is_leader:
            self.log.assign_leader_epoch(leader_epoch)
        self.leader_id, self.leader_epoch = broker_id, leader_epoch
        self.isr, self.replicas = isr, replicas
        self.is_leader = True

    def become_follower(self, leader_id: int, leader_epoch: int) -> None:
        if leader_epoch < self.leader_epoch:
            return
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.resign()

    def resign(self) -> None:
        """Stop serving. Requests that wait for a commit end with NOT_LEADER_OR_FOLLOWER."""
        self.is_leader = False
        self.commit_waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.read_waiters.wake_all()

    def fail(self, reason: str) -> None:
        """Take the partition offline after a storage error: refuse all requests, and acknowledge no
        waiting request (S16)."""
        self.offline = reason
        try:
            self.commit_waiters.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        finally:
            self.read_waiters.wake_all()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise Refused unless this broker leads the partition in the client's leader epoch
        (KIP-320; -1: the client sent none)."""
        if self.offline is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        if not self.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != -1 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
            raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_in_sync_replicas(self) -> None:
        """Raise Refused if too few replicas are in sync for acks=all. A min.insync.replicas above
        the number of replicas counts as that number, so that a single broker needs no settings."""
        if len(self.isr) >= self.log.config.min_insync_replicas:
            return
        required = min(self.log.config.min_insync_replicas, len(self.replicas))
        if len(self.isr) < required:
            raise Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.isr)} in sync, {required} required"
            )

    # --- watermarks

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The end for read_committed readers: all records below it are decided and committed."""
        unstable = self.log.first_unstable_offset(self._high_watermark)
        if unstable is None:
            return self._high_watermark
        return max(min(self._high_watermark, unstable), self.log.log_start_offset)

    def end_offset(self, isolation: Isolation) -> int:
        """Return the first offset that a reader of this isolation may not see."""
        if isolation is Isolation.READ_COMMITTED:
            return self.last_stable_offset
        return self._high_watermark

    def on_flushed(self, log_end_offset: int) -> None:
        """Advance the high watermark: all records below `log_end_offset` are on disk."""
        if self.offline is not None:
            return  # An earlier flush failed: a later one that succeeds proves nothing (S16).
        unflushed = self.log.log_end_offset - log_end_offset
        if not self._flush_on_ack and unflushed < self.log.config.flush_messages:
            self._flush_requested = False
            log_end_offset = self.log.log_end_offset
        self._advance(log_end_offset)

    def _advance(self, high_watermark: int) -> None:
        if high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
            producers = self.log.producers
            if producers.decided:
                producers.on_high_watermark(high_watermark)
            try:
                if self.commit_waiters.waiting:
                    self.commit_waiters.advance(high_watermark)
            finally:
                if self.read_waiters.wakes:
                    self.read_waiters.wake_all()

    def when_committed(self, end_offset: int, settled: Settled) -> None:
        """Call `settled(NONE)` once all records below `end_offset` are committed, at once if they
        are."""
        if self._high_watermark >= end_offset:
            settled(ErrorCode.NONE)
        else:
            self.commit_waiters.wait(end_offset, settled)

    # --- appends

    def append(
        self, records: bytearray | memoryview, *, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """Append exactly one batch, which is patched in place. Raises Refused with the partition's
        error code."""
        if not self.is_leader or self.offline is not None:
            self.check_leader()
        try:
            appended = self.log.append(
                records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin
            )
        except StorageError as error:
            raise self._refused(error) from error
        if not appended.duplicate:
            self._appended()
        return appended

    def append_decided(self, records: bytearray, count: int, *, now_ms: int) -> int:
        """Append a coordinator's batch outside of any transaction and return its base offset (see
        PartitionLog.append_decided). Raises Refused."""
        if not self.is_leader or self.offline is not None:
            self.check_leader()
        try:
            base_offset = self.log.append_decided(
                records, count, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
        except StorageError as error:
            raise self._refused(error) from error
        self._appended()
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
        """End a producer's transaction in this partition. The marker, the abort's index row and the
        last stable offset change in this call, without an await between them."""
        if not self.is_leader or self.offline is not None:
            self.check_leader()
        try:
            appended = self.log.append_marker(
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
        self.refused_sequences.forget(producer_id)
        self._appended()
        return appended

    def _appended(self) -> None:
        log = self.log
        end_offset = log.segments.active.end_offset
        if not self._flush_on_ack and not self._flush_requested:
            unflushed = end_offset - log.recovery_point
            if unflushed < log.config.flush_messages:
                self._advance(end_offset)
                return
        self._flush_requested = True
        self._request_flush(self)

    # --- transactions that come without AddPartitionsToTxn (KIP-890)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if this producer's current transaction already has a batch in this partition."""
        entry = self.log.producers.entry(producer_id)
        return (
            entry is not None
            and entry.producer_epoch == producer_epoch
            and entry.current_txn_first_offset != NONE
        )

    def begin_verification(self, producer_id: int) -> VerificationGuard:
        return self.guards.begin(producer_id)

    def end_verification(self, producer_id: int, guard: VerificationGuard) -> None:
        """End a verification, after the batch that waited for it was appended or refused."""
        self.guards.end(producer_id, guard)

    def check_guard(self, producer_id: int, guard: VerificationGuard) -> None:
        """Raise Refused if the transaction ended while it was verified."""
        if not self.guards.holds(producer_id, guard):
            raise Refused(
                ErrorCode.TRANSACTION_ABORTABLE, "the transaction ended while it was looked up"
            )

    # --- reads

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation, *, at_least_one: bool
    ) -> PartitionRead:
        """Return the records from `offset`. `at_least_one`: return one whole batch even if it is
        larger than `max_bytes`, so that no reader is stuck (KIP-74). Raises Refused
        (OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR)."""
        log = self.log
        stable = self.last_stable_offset
        limit = stable if isolation is Isolation.READ_COMMITTED else self._high_watermark
        if not log.log_start_offset <= offset <= log.log_end_offset:
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
                    # Only aborts among these records: there may be thousands up to the limit.
                    aborted = log.aborted_transactions(offset, found.end_offset)
        except (StorageError, CorruptLog) as error:
            raise self._refused(error) from error
        return PartitionRead(self._high_watermark, stable, log.log_start_offset, records, aborted)

    def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Move the log start up to `offset` (at most the high watermark) and return the new log
        start offset (KIP-107). Raises Refused and StorageError."""
        if not 0 <= offset <= self._high_watermark:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(offset, now_ms)
        self.read_waiters.wake_all()
        return self.log.log_start_offset
