"""Transactions with a visible and an invisible part."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.checking.anomaly import Anomaly
from tests.simulation.checking.history import GroupKey, History, Operation, Outcome
from tests.simulation.checking.version_order import VersionOrder


def find_torn_transactions(history: History, order: VersionOrder) -> Iterator[Anomaly]:
    """Yield an anomaly for each torn transaction. Some are found by their values, others by the
    final offsets of groups."""
    for operation in order.operations:
        if operation.is_transaction:
            yield from _torn_values(operation, history, order)
    for group_key, offset in sorted(history.final_offsets.items()):
        yield from _torn_offsets(group_key, offset, order)


def _is_missing(key: str, value: int, history: History, order: VersionOrder) -> bool:
    """Return True if no successful operation has read the value, but a successful operation has
    read a later value of the key. Also return True if the key was read to its end and no operation
    has read the value."""
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
    """Yield anomalies if the final offset was not committed together with its transaction. The
    offsets of a group and key only grow, because every client of the group reads forward."""
    declared = [op for op in order.operations if group_key in op.group_offsets]
    group = f"group {group_key[0]} has offset {offset} in {group_key[1]}"
    writers = [op for op in declared if op.group_offsets[group_key] == offset]
    if declared and not any(op.outcome is not Outcome.FAIL for op in writers):
        yield Anomaly("torn-txn", f"{group}, but no operation can have committed it")
    for operation in declared:
        promised = operation.group_offsets[group_key]
        if promised > offset and order.must_have_committed(operation):
            yield Anomaly("torn-txn", f"{group}, but a transaction has committed {promised}")
    for operation in writers:
        unseen = [s for s in operation.sends if (s.key, s.value) not in order.seen]
        if operation.outcome is Outcome.INFO and len(writers) == 1 and operation.sends and unseen:
            yield Anomaly("torn-txn", f"{group}, but {unseen} of its transaction cannot be read")
