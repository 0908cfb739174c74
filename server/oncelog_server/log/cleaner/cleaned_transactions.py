"""What became of the transactions that the cleaner meets on its way through a log (Kafka's
CleanedTransactionMetadata)."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_protocol.records.batch import BatchHeader
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.record import Record
from oncelog_server.log.txn_index import AbortedTransaction


class CleanedTransactions:
    """Follows every batch in the order of offsets. `aborted`: the txnindex rows of all segments
    that the pass reads.

    All transactions on the way are decided: nothing undecided is ever cleaned. `rows` collects the
    rows that the cleaned segment keeps.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # Begun later comes first, so that the next one is at the end.
        self._ahead = sorted(aborted, key=lambda row: row.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        # Producers whose transaction on the way still has a batch.
        self._with_batches: set[int] = set()
        self.rows: list[AbortedTransaction] = []

    def _begin_up_to(self, offset: int) -> None:
        ahead = self._ahead
        while ahead and ahead[-1].first_offset <= offset:
            row = ahead.pop()
            self._aborted[row.producer_id] = row

    def is_aborted(self, header: BatchHeader) -> bool:
        """A batch of records: does an abort take it back?"""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_batches.add(header.producer_id)
        row = self._aborted.get(header.producer_id)
        return row is not None and header.last_offset < row.last_offset

    def ends_nothing(self, header: BatchHeader, records: list[Record]) -> bool:
        """A control batch: is no batch left of the transaction that it ends? One of an unknown kind
        stays for ever."""
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
