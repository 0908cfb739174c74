"""Packs many small conditional changes into few transactions of the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from oncelog_server.cluster.store import MAX_OPERATIONS, Compare, Write, WriteOperation

T = TypeVar("T")

# Maximum number of changes in one transaction. A transaction with fewer changes conflicts less.
BATCH: Final = 100


class Batch(msgspec.Struct, Generic[T], frozen=True):
    """The changes of one transaction, and the transaction itself."""

    changes: tuple[T, ...]
    write: Write


class Batches(Generic[T]):
    """Transactions in the order of their changes. Each has the conditions `fence`, and the
    conditions of its changes. A condition that several changes share is in a transaction only
    once."""

    def __init__(self, fence: Sequence[Compare]) -> None:
        self._fence = tuple(fence)
        self._done: list[Batch[T]] = []
        self._changes: list[T] = []
        self._compare: dict[Compare, None] = {}
        self._operations: list[WriteOperation] = []

    def add(self, change: T, compare: Iterable[Compare], operation: WriteOperation) -> None:
        """Add a change with its conditions and its operation. A change has few conditions."""
        needed = [condition for condition in compare if condition not in self._compare]
        count = len(self._fence) + len(self._compare) + len(needed)
        if len(self._changes) == BATCH or count > MAX_OPERATIONS:
            self._close()
            needed = list(compare)
        self._changes.append(change)
        self._compare.update(dict.fromkeys(needed))
        self._operations.append(operation)

    def batches(self) -> list[Batch[T]]:
        self._close()
        return self._done

    def writes(self) -> list[Write]:
        return [batch.write for batch in self.batches()]

    def _close(self) -> None:
        if not self._changes:
            return
        write = Write((*self._fence, *self._compare), tuple(self._operations))
        self._done.append(Batch(tuple(self._changes), write))
        self._changes, self._compare, self._operations = [], {}, []
