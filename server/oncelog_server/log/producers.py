"""The state of the producers of a log: epochs, the last five batches, open transactions (KIP-98,
KIP-360, KIP-890, KIP-1228; Kafka's ProducerStateManager and ProducerAppendInfo).

Checks change no state. The log calls `data_appended` and `marker_appended` when the bytes are in
the file, so a failed write does not change the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import TRANSACTIONAL_FLAG, BatchHeader
from oncelog_server.log.errors import AppendError

BATCHES_KEPT: Final = 5
NONE: Final = -1
# From this transaction version on, a marker's epoch is greater than that of the data (KIP-890,
# KIP-1228).
_EPOCH_BUMPING_VERSION: Final = 2
_MAX_SEQUENCE: Final = (1 << 31) - 1
# If the time between two calls of `expire` is longer than this, the clock was set forward.
_LONGEST_PAUSE_MS: Final = 3_600_000


class BatchMetadata(msgspec.Struct, frozen=True, gc=False):
    """An appended batch. The state keeps the batch to respond to a retry of the batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NONE:
            return NONE
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(msgspec.Struct, gc=False):
    """The state of one producer id in one partition. NONE means that a number is not known yet.
    For `current_txn_first_offset`, NONE means that no transaction is open."""

    producer_id: int
    producer_epoch: int = NONE
    coordinator_epoch: int = NONE
    # Latest timestamp of the last batch, for DescribeProducers. The state expires by `updated_ms`,
    # the broker's time.
    last_timestamp: int = NONE
    updated_ms: int = NONE
    current_txn_first_offset: int = NONE
    batches: list[BatchMetadata] = msgspec.field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NONE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NONE

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0


class OngoingTransaction(msgspec.Struct, frozen=True):
    """A transaction with records in this log and, so far, without a marker. `position` is the
    position of the transaction's first batch in the segment's file. `position` is NONE if the
    transaction comes from a snapshot."""

    producer_id: int
    first_offset: int
    segment_base_offset: int = NONE
    position: int = NONE


class CompletedTransaction(msgspec.Struct, frozen=True):
    """A transaction that has its marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


def _ignore() -> None:
    pass


def _any_id(producer_id: int) -> bool:
    return True


class Producers:
    """The producers of one partition. The state of an idle producer is kept until it expires."""

    def __init__(self) -> None:
        # `oncelog.max.producer.ids.per.partition`. The limit applies to clients only, because
        # coordinators have their own limits.
        self.max_ids = 2**63
        # Called for every batch that this limit refuses.
        self.on_full: Callable[[], None] = _ignore
        # Returns True if the producer id was assigned already. A client must not use an unassigned
        # id, because another producer will get this id later.
        self.is_given: Callable[[int], bool] = _any_id
        self._swept_ms = NONE
        self._entries: dict[int, ProducerEntry] = {}
        # By first offset. New transactions are added at the end, so the first key is the smallest.
        self._ongoing: dict[int, OngoingTransaction] = {}
        # First offset -> offset of the marker, for transactions with a marker that may be at or
        # above the high watermark.
        self.decided: dict[int, int] = {}

    def limit(
        self, max_ids: int, *, is_given: Callable[[int], bool], on_full: Callable[[], None]
    ) -> None:
        """Refuse a client's new producer id if the partition has `max_ids` already. Also refuse ids
        that were never assigned."""
        self.max_ids, self.is_given, self.on_full = max_ids, is_given, on_full

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def ongoing_transactions(self) -> list[OngoingTransaction]:
        """Return the open transactions in the order of their first offsets."""
        return list(self._ongoing.values())

    def ongoing_transaction(self, first_offset: int) -> OngoingTransaction | None:
        return self._ongoing.get(first_offset)

    # Checks: they change nothing, and raise AppendError with the reason.

    def check_data(self, header: BatchHeader, *, from_client: bool) -> BatchMetadata | None:
        """Check that this batch may be appended. Return the original batch if this batch repeats
        one of the producer's last five batches, otherwise None.

        Records of coordinators have no sequence numbers. Raises AppendError with
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE. The code is
        UNKNOWN_PRODUCER_ID for an id that was never assigned. The code is POLICY_VIOLATION for a
        new id above the limit.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if from_client and not self.is_given(header.producer_id):
                raise AppendError(
                    ErrorCode.UNKNOWN_PRODUCER_ID,
                    f"producer id {header.producer_id} was never assigned: request one "
                    "(InitProducerId)",
                )
            if from_client and len(self._entries) >= self.max_ids:
                self.on_full()
                raise AppendError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the partition already has {len(self._entries)} producer ids"
                    " (oncelog.max.producer.ids.per.partition)",
                )
            return None  # the id is unknown or expired: any first sequence is valid
        epoch = header.producer_epoch
        if epoch < entry.producer_epoch:
            raise _stale_epoch(entry, epoch)
        if from_client:
            batches = entry.batches
            sequence = header.base_sequence
            if epoch == entry.producer_epoch:
                expected = 0
                if batches:
                    last_sequence = batches[-1].last_sequence
                    expected = last_sequence + 1 & _MAX_SEQUENCE
                if sequence != expected:
                    repeated = _repeated(batches, header)
                    if repeated is None:
                        raise _refuse_sequence(entry, header, expected)
                    return repeated
            elif sequence and entry.producer_epoch != NONE:
                raise _refuse_sequence(entry, header, 0)
        if entry.current_txn_first_offset != NONE and (
            epoch != entry.producer_epoch or not header.attributes & TRANSACTIONAL_FLAG
        ):
            # The batch is not transactional, or has a newer epoch. A newer epoch means that the
            # coordinator has lost the open transaction, for example after a power loss without a
            # flush. A single marker would then end the lost transaction and the new transaction.
            raise AppendError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {entry.producer_id} wrote outside of its open transaction",
            )
        return None

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """Check that this marker may be appended. Raises AppendError with INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED.

        From transaction version 2 on, the marker's epoch must be greater than that of the data.
        Only a repeated marker may have the same epoch, because the repetition finds no open
        transaction (KAFKA-19999).
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        stale = producer_epoch < entry.producer_epoch
        if transaction_version >= _EPOCH_BUMPING_VERSION:
            is_open = entry.current_txn_first_offset != NONE
            stale = stale or (is_open and producer_epoch == entry.producer_epoch)
        if stale:
            raise _stale_epoch(entry, producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise AppendError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {entry.coordinator_epoch}",
            )

    def contradicts(self, header: BatchHeader) -> bool:
        """Return True if a leader with this state would refuse the batch or take it for a
        duplicate. The follower appends the batch nevertheless, because the leader decides. A
        contradiction shows that the follower's state differs from the leader's.

        Sequence 0 never contradicts, because the records of coordinators have no sequences.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None or header.is_control:
            return False
        if header.producer_epoch != entry.producer_epoch or not entry.batches:
            return header.producer_epoch < entry.producer_epoch
        sequence = header.base_sequence
        return sequence > 0 and sequence != entry.last_sequence + 1 & _MAX_SEQUENCE

    # Changes: the bytes are in the log.

    def data_appended(
        self,
        header: BatchHeader,
        base_offset: int,
        segment_base_offset: int,
        position: int,
        now_ms: int,
    ) -> None:
        """Update the state with a batch of records. The batch is in the log at `base_offset`."""
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        delta = header.last_offset_delta
        timestamp = header.max_timestamp
        batches = entry.batches
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            batches.clear()
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        last_sequence = header.base_sequence
        if last_sequence != NONE:
            last_sequence = last_sequence + delta & _MAX_SEQUENCE
        batches.append(BatchMetadata(last_sequence, base_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        entry.updated_ms = now_ms
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset == NONE:
            entry.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = OngoingTransaction(
                producer_id, base_offset, segment_base_offset, position
            )

    def completed_by(
        self, producer_id: int, *, offset: int, committed: bool
    ) -> CompletedTransaction | None:
        """Return the transaction that a marker at `offset` ends. Return None if the producer has no
        open transaction in this log."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.current_txn_first_offset == NONE:
            return None
        return CompletedTransaction(producer_id, entry.current_txn_first_offset, offset, committed)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset after `completed`. The high watermark is not considered.
        The txnindex row of `completed` needs this value."""
        for transaction in self._ongoing.values():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset
        return completed.last_offset + 1

    def marker_appended(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        completed: CompletedTransaction | None,
        *,
        timestamp: int,
        now_ms: int,
    ) -> None:
        """Update the state with a marker that is in the log. `completed` is the transaction that
        the marker ends. It is None if the producer had no open transaction in this log."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        if entry.producer_epoch != producer_epoch:
            entry.producer_epoch = producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.updated_ms = now_ms
        if completed is not None:
            entry.current_txn_first_offset = NONE
            self._ongoing.pop(completed.first_offset, None)
            self.decided[completed.first_offset] = completed.last_offset

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace the state by the entries of a snapshot and their open transactions."""
        self.clear()
        self._entries = {entry.producer_id: entry for entry in entries}
        opened = [e for e in self._entries.values() if e.current_txn_first_offset != NONE]
        for entry in sorted(opened, key=lambda entry: entry.current_txn_first_offset):
            first_offset = entry.current_txn_first_offset
            self._ongoing[first_offset] = OngoingTransaction(entry.producer_id, first_offset)

    def clear(self) -> None:
        self._entries.clear()
        self._ongoing.clear()
        self.decided.clear()

    def may_change_from(self, offset: int) -> bool:
        """Return False if no batch or marker at or after `offset` has changed the state. The
        offsets of markers are unknown, so the result is True with a marker at any offset."""
        return any(entry.last_offset >= offset or entry.coordinator_epoch != NONE for entry in self)

    def rewind(self, end_offset: int, earlier: Producers | None) -> None:
        """Take the state `earlier` of `end_offset`. Keep the current state if `earlier` is None. A
        snapshot does not have the transactions with markers before the snapshot. These markers may
        still be at or above the high watermark, so the entries of `decided` are kept."""
        kept = {first: last for first, last in self.decided.items() if last < end_offset}
        if earlier is not None:
            self._entries, self._ongoing = earlier._entries, earlier._ongoing
            kept = earlier.decided | kept
        self.decided = kept

    # Expiry and visibility.

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the smallest first offset of the transactions that have no marker below the high
        watermark. Return None if there is no such transaction. Forget the transactions with a
        marker below the high watermark, because the high watermark never moves back."""
        first = next(iter(self._ongoing)) if self._ongoing else None
        if self.decided:
            self.on_high_watermark(high_watermark)
            if self.decided:
                decided = min(self.decided)
                return decided if first is None else min(first, decided)
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the transactions with a marker below `high_watermark`."""
        if not self.decided:
            return
        done = [first for first, last in self.decided.items() if last < high_watermark]
        for first in done:
            del self.decided[first]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for `expiration_ms` (`producer.id.expiration.ms`) of
        the broker's time and have no open transaction. Return the number of forgotten producers.
        The caller calls this method every few minutes. A forward jump of the clock expires no
        producer. If the clock was ahead and was set back, idle producers still expire."""
        jump_ms = 0
        if self._swept_ms != NONE:
            jump_ms = max(now_ms - self._swept_ms - _LONGEST_PAUSE_MS, 0)
        self._swept_ms = now_ms
        before = now_ms - expiration_ms
        expired = []
        for entry in self._entries.values():
            updated_ms = entry.updated_ms + jump_ms
            if jump_ms or updated_ms > now_ms:
                entry.updated_ms = updated_ms = min(updated_ms, now_ms)
            if updated_ms <= before and entry.current_txn_first_offset == NONE:
                expired.append(entry.producer_id)
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)


def _repeated(batches: list[BatchMetadata], header: BatchHeader) -> BatchMetadata | None:
    first, last = header.base_sequence, header.last_sequence
    for batch in batches:
        if batch.last_sequence == last and batch.first_sequence == first:
            return batch
    return None


def _stale_epoch(entry: ProducerEntry, epoch: int) -> AppendError:
    return AppendError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {entry.producer_id} has epoch {entry.producer_epoch}, not {epoch}",
    )


def _refuse_sequence(entry: ProducerEntry, header: BatchHeader, expected: int) -> AppendError:
    return AppendError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {entry.producer_id} with epoch {header.producer_epoch} sent sequence"
        f" {header.base_sequence}, expected {expected}",
    )
