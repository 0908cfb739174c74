"""The writer and the readers of each value, and the order of the values of each key."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from tests.simulation.checking.history import History, Key, Operation, Outcome, Value

KeyValue = tuple[Key, Value]


class VersionOrder:
    """`index` of a value: the rank of its offset among those of its key that hold a visible value.

    Visible are values of all polls, also of failed operations (a reader must see what is safe
    whatever becomes of it), and sends of operations that have certainly happened.
    """

    def __init__(self, history: History) -> None:
        self.operations = history.operations
        self.writers: dict[KeyValue, Operation] = {}
        # Read by an operation that is OK, and by any at all.
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
        """Whether it is OK, or unknown with a value that an OK operation has read."""
        if operation.outcome is Outcome.INFO:
            return any((send.key, send.value) in self.readers for send in operation.sends)
        return operation.outcome is Outcome.OK

    @cached_property
    def indexes(self) -> dict[KeyValue, list[int]]:
        """The ranks of each value: more than one for a duplicate."""
        found: defaultdict[KeyValue, list[int]] = defaultdict(list)
        for key, by_offset in self.by_offset.items():
            for rank, values in enumerate(by_offset.values()):
                for value in values:
                    found[key, value].append(rank)
        return dict(found)

    @cached_property
    def bounds(self) -> dict[Key, int]:
        """How far each key has been read by OK operations: the highest first rank of a value."""
        bounds: dict[Key, int] = {}
        for key, value in self.readers:
            bounds[key] = max(bounds.get(key, -1), self.indexes[key, value][0])
        return bounds
