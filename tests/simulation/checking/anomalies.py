"""The anomalies of jepsen.tests.kafka. Transactions allow some of them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.checking.anomaly import Anomaly
from tests.simulation.checking.cycles import find_cycles
from tests.simulation.checking.history import Assigned, History, Key, Operation, Outcome
from tests.simulation.checking.torn import find_torn_transactions
from tests.simulation.checking.version_order import VersionOrder


def check_history(history: History) -> list[Anomaly]:
    """Return every anomaly. An anomaly that is not `allowed` is an error."""
    order = VersionOrder(history)
    return [
        *_reads(order),
        *_values(order),
        *_lost_writes(order),
        *find_torn_transactions(history, order),
        *_unseen(history, order),
        *_steps_inside(order),
        *_steps_between(history, order),
        *_consumed_again(history),
        *find_cycles(order),
    ]


def _reads(order: VersionOrder) -> Iterator[Anomaly]:
    """Find reads of aborted values, reads of values that the same transaction sent, and reads of
    values that no client sent."""
    for operation in order.operations:
        own = {(send.key, send.value) for send in operation.sends}
        for key, offset, value in operation.polled():
            writer = order.writers.get((key, value))
            at = f"{value} at {key}:{offset}"
            if writer is None:
                yield Anomaly("phantom", f"{at} was never sent")
            elif writer.outcome is Outcome.FAIL and operation.outcome is Outcome.OK:
                yield Anomaly("G1a", f"{at} was sent by an operation that failed")
            if (key, value) in own and operation.is_transaction:
                yield Anomaly("precommitted-read", f"{at} was read in the transaction itself")


def _values(order: VersionOrder) -> Iterator[Anomaly]:
    for key, by_offset in order.by_offset.items():
        for offset, values in by_offset.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"{key}:{offset} holds {sorted(values)}")
        for value in dict.fromkeys(value for values in by_offset.values() for value in values):
            offsets = [offset for offset, values in by_offset.items() if value in values]
            if len(offsets) > 1:
                zero = " (spurious zero offset)" if 0 in offsets else ""
                yield Anomaly("duplicate", f"{value} of {key} is at offsets {offsets}{zero}")


def _lost_writes(order: VersionOrder) -> Iterator[Anomaly]:
    for (key, value), ranks in order.indexes.items():
        writer = order.writers.get((key, value))
        if (
            writer is not None
            and order.must_have_committed(writer)
            and (key, value) not in order.readers
            and ranks[-1] <= order.bounds.get(key, -1)
        ):
            yield Anomaly("lost-write", f"{value} of {key} was skipped by every reader")


def _unseen(history: History, order: VersionOrder) -> Iterator[Anomaly]:
    """Find acknowledged values that no reader has read. The check skips keys that no reader has
    read to the end."""
    for (key, value), writer in order.writers.items():
        if (
            key in history.complete
            and writer.outcome is Outcome.OK
            and (key, value) not in order.seen
        ):
            yield Anomaly("unseen", f"{value} of {key} was acknowledged and never read")


def _steps_inside(order: VersionOrder) -> Iterator[Anomaly]:
    """Find wrong orders of polls and sends inside one operation."""
    for operation in order.operations:
        last: dict[Key, int] = {}
        for key, _, value in operation.polled():
            rank = order.indexes[key, value][0]
            if key in last and key not in operation.rebalanced:
                yield from _poll_step("int-", key, last[key], rank, allowed=False)
            last[key] = rank
        if not operation.is_transaction or operation.outcome is Outcome.FAIL:
            continue
        sent: dict[Key, int] = {}
        for send in operation.sends:
            ranks = order.indexes.get((send.key, send.value))
            if ranks is None:
                continue
            before = sent.get(send.key)
            if before is not None and ranks[0] < before:
                yield Anomaly("int-nonmonotonic-send", f"{send.value} of {send.key}")
            elif before is not None and ranks[0] > before + 1:
                yield Anomaly("int-send-skip", f"before {send.value} of {send.key}", allowed=True)
            sent[send.key] = ranks[0]


def _poll_step(
    prefix: str, key: Key, before: int, after: int, *, allowed: bool
) -> Iterator[Anomaly]:
    step = f"{key}: version {before}, then {after}"
    if after > before + 1:
        yield Anomaly(f"{prefix}poll-skip", step, allowed)
    elif after < before + 1:
        yield Anomaly(f"{prefix}nonmonotonic-poll", step, allowed)


def _steps_between(history: History, order: VersionOrder) -> Iterator[Anomaly]:
    """Find wrong orders of polls and sends of one process across operations."""
    position: dict[int, dict[Key, int]] = {}
    subscribed: set[int] = set()
    sent: dict[tuple[int, Key], int] = {}
    for event in history.events:
        known = position.setdefault(event.process, {})
        if isinstance(event, Assigned):
            kept = {} if event.from_start else known
            position[event.process] = {k: kept[k] for k in sorted(kept) if k in event.keys}
            subscribed.discard(event.process)
            if event.subscribed:
                subscribed.add(event.process)
            continue
        if event.outcome is not Outcome.OK:
            for key in {key for key, _, _ in event.polled()}:
                if not (event.outcome is Outcome.FAIL and event.rewound):
                    known.pop(key, None)
            continue
        for key, before, after in _first_polls(event, known, order):
            yield from _poll_step("", key, before, after, allowed=event.process in subscribed)
        for key, _, value in event.polled():
            known[key] = order.indexes[key, value][0]
        for send in event.sends:
            ranks = order.indexes.get((send.key, send.value))
            if ranks is not None:
                if ranks[0] < sent.get((event.process, send.key), -1):
                    yield Anomaly("nonmonotonic-send", f"{send.value} of {send.key}")
                sent[event.process, send.key] = ranks[0]


def _first_polls(
    operation: Operation, known: dict[Key, int], order: VersionOrder
) -> Iterator[tuple[Key, int, int]]:
    met: set[Key] = set()
    for key, _, value in operation.polled():
        if key in known and key not in met and key not in operation.rebalanced:
            yield key, known[key], order.indexes[key, value][0]
        met.add(key)


def _consumed_again(history: History) -> Iterator[Anomaly]:
    """Find records that a subscribed process got again after it had committed them. Rebalances may
    cause this, so the anomaly is allowed."""
    subscribed: set[int] = set()
    consumed: set[tuple[int, Key, int]] = set()
    for event in history.events:
        if isinstance(event, Assigned):
            subscribed.discard(event.process)
            if event.subscribed:
                subscribed.add(event.process)
        elif event.is_transaction and event.outcome is Outcome.OK and event.process in subscribed:
            for key, _, value in event.polled():
                if (event.process, key, value) in consumed:
                    yield Anomaly("consumed-again", f"{value} of {key}", allowed=True)
                consumed.add((event.process, key, value))
