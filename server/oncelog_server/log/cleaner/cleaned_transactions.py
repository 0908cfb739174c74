"""The outcomes of the transactions in the part of a log that the cleaner reads (Kafka's
CleanedTransactionMetadata)."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_protocol.records.batch import BatchHeader
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.record import Record
from oncelog_server.log.txn_index import AbortedTransaction


class CleanedTransactions:
    """Finds which transactions were aborted. The caller passes every batch, in the order of
    offsets. `aborted`: the txnindex rows of all segments that the pass reads.

    All transactions in the range are decided, because the cleaner stops below the last stable
    offset. `rows`: the txnindex rows of the segment that is being written.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # In reverse order of their first offsets, so that the next transaction is at the end.
        self._ahead = sorted(aborted, key=lambda row: row.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        # Producers with a batch of their current transaction among the batches so far.
        self._with_batches: set[int] = set()
        self.rows: list[AbortedTransaction] = []

    def _begin_up_to(self, offset: int) -> None:
        ahead = self._ahead
        while ahead and ahead[-1].first_offset <= offset:
            row = ahead.pop()
            self._aborted[row.producer_id] = row

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return True if the transaction of a batch of records was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_batches.add(header.producer_id)
        row = self._aborted.get(header.producer_id)
        return row is not None and header.last_offset < row.last_offset

    def ends_nothing(self, header: BatchHeader, records: list[Record]) -> bool:
        """Return True if the control batch is empty, or ends a transaction that has no batches
        left. For a control record of an unknown kind the result is False, so the batch is kept
        forever."""
        self._begin_up_to(header.last_offset)
        marker = read_marker(records[0]) if records else None
        if marker is None:
            return not records
        had_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        if not marker.committed:
            row = self._aborted.pop(header.producer_id, None)
            if row is not None and had_batches:
                self.rows.append(row)
        return not had_batches
