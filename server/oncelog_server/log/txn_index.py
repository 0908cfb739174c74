"""The aborted transactions of a segment, in the order of their markers (KIP-98). The rows have the
format of Kafka's TransactionIndex and AbortedTxn: 34 bytes without a checksum. `log/aborted.py`
keeps a checksum of the rows in another file."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from oncelog_protocol.checksum import crc32c

ROW_SIZE: Final = 34
_VERSION: Final = 0
_ROW: Final = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction. `first_offset`: its first record in this log. `last_offset`: its
    ABORT marker.

    `last_stable_offset`: the last stable offset right after the abort. Each transaction that is
    aborted later has its first record at or above this offset.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_last_offset = attrgetter("last_offset")


class TxnIndex:
    """The rows of one segment in memory, with the CRC32C of their bytes in the file."""

    __slots__ = ("crc", "rows")

    def __init__(self) -> None:
        self.rows: list[AbortedTransaction] = []
        self.crc = 0

    def append(self, row: AbortedTransaction, data: bytes) -> None:
        """Add a row. `data` is the row in the form that `encode_row` returns."""
        self.rows.append(row)
        self.crc = crc32c(data, self.crc)

    def collect(self, first_offset: int, end_offset: int, into: list[AbortedTransaction]) -> bool:
        """Add the transactions with records in `first_offset`..`end_offset` (exclusive) to `into`.
        Return True if no later segment can have more of them
        (TransactionIndex.collectAbortedTxns)."""
        rows = self.rows
        for slot in range(bisect_left(rows, first_offset, key=_last_offset), len(rows)):
            row = rows[slot]
            if row.first_offset < end_offset:
                into.append(row)
            if row.last_stable_offset >= end_offset:
                return True
        return False

    @classmethod
    def decode(cls, data: bytes) -> TxnIndex | None:
        """Decode an index file. Return None if `data` cannot be an index. The caller compares `crc`
        with the checkpoint."""
        if len(data) % ROW_SIZE:
            return None
        index = cls()
        index.crc = crc32c(data)
        previous = -1
        for version, producer_id, first_offset, last_offset, stable_offset in _ROW.iter_unpack(
            data
        ):
            if (
                version != _VERSION
                or not 0 <= first_offset < last_offset
                or last_offset <= previous
            ):
                return None
            previous = last_offset
            index.rows.append(
                AbortedTransaction(producer_id, first_offset, last_offset, stable_offset)
            )
        return index


def encode_row(row: AbortedTransaction) -> bytes:
    return _ROW.pack(_VERSION, *row)
