"""The aborted transactions of a log, in the job of a pass."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from oncelog_server.log.txn_index import AbortedTransaction

_COLUMNS: Final = len(AbortedTransaction._fields)


class AbortedRows:
    """AbortedTransactions in the order of their markers. The numbers are in an array, because an
    array is pickled as one copy of its bytes (`last_batches.py`)."""

    __slots__ = ("_numbers",)

    def __init__(self, rows: Iterable[AbortedTransaction] = ()) -> None:
        self._numbers = array("q")
        for row in rows:
            self.add(row)

    def add(self, row: AbortedTransaction) -> None:
        self._numbers.extend(row)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        columns = [self._numbers[column::_COLUMNS] for column in range(_COLUMNS)]
        return map(AbortedTransaction, *columns)
