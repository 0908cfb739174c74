"""Transactions with a visible and an invisible part."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.checking.anomaly import Anomaly
from tests.simulation.checking.history import GroupKey, History, Operation, Outcome
from tests.simulation.checking.version_order import VersionOrder


def find_torn_transactions(history: History, order: VersionOrder) -> Iterator[Anomaly]:
    """Find torn transactions by their values, and by the final offsets of their groups."""
    for operation in order.operations:
        if operation.is_transaction:
            yield from _torn_values(operation, history, order)
    for group_key, offset in sorted(history.final_offsets.items()):
        yield from _torn_offsets(group_key, offset, order)


def _is_missing(key: str, value: int, history: History, order: VersionOrder) -> bool:
    """Return True if readers have passed the value's offset and none of them has read it."""
    if (key, value) in order.readers:
        return False
    ranks = order.indexes.get((key, value))
    passed = ranks is not None and ranks[-1] <= order.bounds.get(key, -1)
    return passed or (key in history.complete and (key, value) not in order.seen)


def _torn_values(operation: Operation, history: History, order: VersionOrder) -> Iterator[Anomaly]:
    sends = [(send.key, send.value) for send in operation.sends]
    visible = [pair for pair in sends if pair in order.readers]
    missing = [pair for pair in sends if _is_missing(*pair, history, order)]
    if visible and missing:
        yield Anomaly("torn-txn", f"{visible} can be read, {missing} cannot")


def _torn_offsets(group_key: GroupKey, offset: int, order: VersionOrder) -> Iterator[Anomaly]:
    """Find offsets that were not committed with their transaction. The offsets of a group and key
    only grow, because every copy loop works forward."""
    declared = [op for op in order.operations if group_key in op.group_offsets]
    group = f"{group_key[0]} at {group_key[1]} is {offset}"
    writers = [op for op in declared if op.group_offsets[group_key] == offset]
    if declared and not any(op.outcome is not Outcome.FAIL for op in writers):
        yield Anomaly("torn-txn", f"{group}: no operation that can have happened said so")
    for operation in declared:
        promised = operation.group_offsets[group_key]
        if promised > offset and order.must_have_committed(operation):
            yield Anomaly("torn-txn", f"{group}: a committed transaction said {promised}")
    for operation in writers:
        unseen = [s for s in operation.sends if (s.key, s.value) not in order.seen]
        if operation.outcome is Outcome.INFO and len(writers) == 1 and operation.sends and unseen:
            yield Anomaly("torn-txn", f"{group}, but {unseen} of that transaction cannot be read")
