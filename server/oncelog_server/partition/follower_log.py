"""The log of a partition while this broker follows its leader: append what the leader sends, and
truncate what the leader does not have (Kafka's ReplicaFetcherThread)."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_protocol.records.batch import HEADER_SIZE, read_header, split_batches
from oncelog_server.log.deletion import delete_records_before
from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.log.replay import ProducersAt
from oncelog_server.log.replicated import Batches
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import ColdSteps

NO_EPOCH: Final = -1


class Cut(NamedTuple):
    """A change of a follower's log that needs a lower recovery point on disk first.

    The log drops the records from `offset` on. If `restarts`, it drops all records, and begins
    again at `offset` with the batches `records`.
    """

    offset: int
    restarts: bool = False
    records: bytes = b""


class FollowerLog:
    """The log of a follower. The caller must stop using this object when the partition has another
    leader or leader epoch."""

    __slots__ = ("partition",)

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    @property
    def end_offset(self) -> int:
        """Return the offset from which the follower fetches."""
        return self.partition.log_end_offset

    @property
    def last_epoch(self) -> int:
        """Return the leader epoch of the last record, NO_EPOCH without records."""
        end_offset = self.end_offset
        if end_offset == self.partition.log_start_offset:
            return NO_EPOCH
        return self.partition.epoch_at(end_offset - 1)

    def needs_restart(self, records: Batches) -> Cut | None:
        """Return the cut before an append of `records`, None if they can be appended as they are.

        If the start of the leader's log is within a batch, a follower with an empty log gets this
        whole batch. The batch then begins before the follower's log.
        """
        end_offset = self.end_offset
        if end_offset != self.partition.log_start_offset or len(records) < HEADER_SIZE:
            return None
        first = read_header(records)
        if not first.base_offset < end_offset <= first.last_offset:
            return None
        return Cut(first.base_offset, restarts=True, records=bytes(records))

    def append(self, records: Batches, now_ms: int) -> int:
        """Append the leader's batches, up to the followed epoch. Return the number of bytes.

        Raises CorruptRecords and UnexpectedBatch; then nothing has changed. Raises StorageError;
        then some of the batches may be appended.
        """
        partition = self.partition
        log, traffic = partition._log, partition.traffic
        end_before, bytes_before = log.log_end_offset, log.segments.appended_bytes
        try:
            log.append_replicated(records, now_ms=now_ms, leader_epoch=partition.leader_epoch)
        finally:
            appended = log.segments.appended_bytes - bytes_before
            traffic.replicated_records += log.log_end_offset - end_before
            traffic.replicated_bytes += appended
            if len(partition.guards) or partition.refused_sequences.lowest_by_id:
                self._end_transactions(records)
        return appended

    def _end_transactions(self, records: Batches) -> None:
        """Forget what this broker has verified as a leader, because a marker of another leader ends
        the transaction (R12)."""
        partition = self.partition
        for _, header in split_batches(memoryview(records), allow_partial=True):
            if header.is_control:
                partition.guards.clear(header.producer_id)
                partition.refused_sequences.forget(header.producer_id)

    def follow_leader(self, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        """Advance the high watermark and the log start to the leader's, at most to the end
        of this log. Raises StorageError."""
        partition = self.partition
        partition.follow_high_watermark(high_watermark)
        start = min(log_start_offset, partition.high_watermark)
        if start > partition.log_start_offset:
            # Retention deletes the segments that the first step leaves.
            next(delete_records_before(partition._log, start, now_ms), None)

    def diverged_at(self, epoch: int, end_offset: int) -> int:
        """Return the offset at which to truncate (KIP-101, KIP-279; Kafka's
        getOffsetTruncationState). `epoch` is the leader's largest epoch at or below the follower's
        last epoch, and `end_offset` is the end of `epoch` in the leader's log. If the follower does
        not have this epoch, the next fetch may find an earlier difference."""
        own = self.partition.end_offset_for_epoch(epoch)
        if own is None:
            return min(end_offset, self.end_offset)
        own_epoch, own_end_offset = own
        if own_epoch != epoch:
            return min(own_end_offset, self.end_offset)
        return min(own_end_offset, end_offset, self.end_offset)

    def lower_recovery_point(self, cut: Cut) -> bool:
        """Prepare the cut. Return True if the checkpoints of the recovery points and of the clean
        parts must be written before the cut. Raises StorageError and CorruptLog."""
        log = self.partition._log
        before = log.recovery_point, log.clean_part.end_offset
        log.lower_recovery_point(cut.offset, restarts=self._restarts(cut))
        return (log.recovery_point, log.clean_part.end_offset) != before

    def find_cut(self, cut: Cut) -> None:
        """Find the place of the cut, so that `lower_recovery_point` and `cut` need not read the log
        to find it. Raises StorageError and CorruptLog."""
        if not self._restarts(cut):
            self.partition._log.find_cut(cut.offset)

    def producers_before(self, cut: Cut, now_ms: int) -> ColdSteps[ProducersAt | None]:
        """Return the producers' state for `cut`. Yield after each step. Raises StorageError and
        CorruptLog."""
        if self._restarts(cut):
            return None
        return (yield from self.partition._log.producers_before(cut.offset, now_ms))

    def cut(self, cut: Cut, now_ms: int, before: ProducersAt | None = None) -> None:
        """Make the cut. `before`: the result of `producers_before`, which is otherwise computed
        now. Raises StorageError, CorruptLog and, for `cut.records`, CorruptRecords and
        UnexpectedBatch."""
        log = self.partition._log
        try:
            if self._restarts(cut):
                log.restart_at(cut.offset, now_ms)
            else:
                log.truncate_to(cut.offset, now_ms, before)
        except OffsetOutOfRange:
            # The batch with the log's start also has records above the cut. So the cut drops this
            # batch, and no batch is left.
            log.restart_at(cut.offset, now_ms)
        if cut.records:
            self.append(cut.records, now_ms)
        self.partition.follow_high_watermark(NO_EPOCH)

    def _restarts(self, cut: Cut) -> bool:
        # A log cannot end below its start.
        return cut.restarts or cut.offset <= self.partition.log_start_offset
