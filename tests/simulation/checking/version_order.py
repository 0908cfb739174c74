"""The writer and the readers of each value, and the order of each key's values."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from tests.simulation.checking.history import History, Key, Operation, Outcome, Value

KeyValue = tuple[Key, Value]


class VersionOrder:
    """The order of versions. The `index` of a value is the rank of its offset among the key's
    offsets with a visible value.

    The values of all polls are visible, even those of failed operations, because a read_committed
    reader sees only committed values. The values of sends are visible if their operation has
    certainly happened (`must_have_committed`).
    """

    def __init__(self, history: History) -> None:
        self.operations = history.operations
        self.writers: dict[KeyValue, Operation] = {}
        # The operations with outcome OK that have read each value. `seen` has the values that any
        # reader has read.
        self.readers: defaultdict[KeyValue, list[Operation]] = defaultdict(list)
        self.seen: set[KeyValue] = set()
        offsets: defaultdict[Key, dict[int, dict[Value, None]]] = defaultdict(dict)
        for operation in self.operations:
            for send in operation.sends:
                self.writers[send.key, send.value] = operation
            for key, offset, value in operation.polled():
                self.seen.add((key, value))
                offsets[key].setdefault(offset, {})[value] = None
                if operation.outcome is Outcome.OK:
                    self.readers[key, value].append(operation)
        for operation in self.operations:
            if self.must_have_committed(operation):
                for send in operation.sends:
                    if send.offset is not None:
                        offsets[send.key].setdefault(send.offset, {})[send.value] = None
        self.by_offset = {
            key: {offset: tuple(found[offset]) for offset in sorted(found)}
            for key, found in offsets.items()
        }

    def must_have_committed(self, operation: Operation) -> bool:
        """Return True if the outcome is OK. Also return True if it is INFO (unknown) and an
        operation with outcome OK has read one of the values."""
        if operation.outcome is Outcome.INFO:
            return any((send.key, send.value) in self.readers for send in operation.sends)
        return operation.outcome is Outcome.OK

    @cached_property
    def indexes(self) -> dict[KeyValue, list[int]]:
        """Return the ranks of each value. A duplicate has more than one."""
        found: defaultdict[KeyValue, list[int]] = defaultdict(list)
        for key, by_offset in self.by_offset.items():
            for rank, values in enumerate(by_offset.values()):
                for value in values:
                    found[key, value].append(rank)
        return dict(found)

    @cached_property
    def bounds(self) -> dict[Key, int]:
        """Return, for each key, the highest rank that operations with outcome OK have read. A
        duplicate counts with its lowest rank."""
        bounds: dict[Key, int] = {}
        for key, value in self.readers:
            bounds[key] = max(bounds.get(key, -1), self.indexes[key, value][0])
        return bounds
