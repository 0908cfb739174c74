"""The state topic as one sink reads it: the sink's newest committed record, its records in open
transactions, and the next sequence number.

A sink reads all records up to the high watermark, and the markers of transactions. A read_committed
reader would wait at the first open transaction, for example of another sink with a dead driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from oncelog_client.core.logged_batches import LoggedBatch
from oncelog_client.values import TopicPartition, TransactionMember
from oncelog_protocol.records.batch import add_to_sequence

from .record_state import Entry, decode
from .state_topic import STATE_TOPIC

STATE_PARTITION: Final = TopicPartition(STATE_TOPIC, 0)
STATE_TOPIC_CONFIGS: Final[Mapping[str, str | None]] = {
    "cleanup.policy": "compact",
    # With small segments compaction keeps up with two records a batch, and a read is short.
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class Pending:
    """A record in a transaction that is still open in the read part of the log."""

    producer_id: int
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class RecordLog:
    """One sink's part of the topic, up to `next_offset`. `entry`: the newest committed entry, None
    for a new sink. `newest`: producer id, epoch and last sequence number of the sink's newest
    record batch."""

    next_offset: int = 0
    entry: Entry | None = None
    pending: tuple[Pending, ...] = ()
    newest: tuple[int, int, int] | None = None

    def first_sequence(self, parent: TransactionMember) -> int:
        """Return the first sequence number of the next record batch that the parent appends."""
        if self.newest is None or self.newest[:2] != parent[1:]:
            return 0
        return add_to_sequence(self.newest[2], 1)


def read_on(log: RecordLog, sink_id: str, batches: Iterable[LoggedBatch]) -> RecordLog:
    """Return the log extended by `batches`. If the topic was deleted and created again, the log
    starts anew. Raises StateUnreadable."""
    for batch in batches:
        if batch.base_offset < log.next_offset:
            log = RecordLog()
        log = replace(_read(log, sink_id, batch), next_offset=batch.next_offset)
    return log


def _read(log: RecordLog, sink_id: str, batch: LoggedBatch) -> RecordLog:
    if batch.committed is not None:
        return _ended(log, batch.producer_id, committed=batch.committed)
    key = sink_id.encode()
    values = [value for name, value in batch.records if name == key]
    if not values:
        return log
    entry = None if values[-1] is None else decode(values[-1], sink_id)
    if not batch.is_transactional:
        # An operator has written this record, outside a transaction.
        return replace(log, entry=entry)
    pending = (*log.pending, Pending(batch.producer_id, entry))
    newest = (batch.producer_id, batch.producer_epoch, batch.last_sequence)
    return replace(log, pending=pending, newest=newest)


def _ended(log: RecordLog, producer_id: int, *, committed: bool) -> RecordLog:
    """Return the log after the end of a producer's transaction. Its records are no longer pending.
    Aborted records are dropped. Of several committed records, the last one counts."""
    ended = [record.entry for record in log.pending if record.producer_id == producer_id]
    if not ended:
        return log
    pending = tuple(record for record in log.pending if record.producer_id != producer_id)
    return replace(log, pending=pending, entry=ended[-1] if committed else log.entry)
