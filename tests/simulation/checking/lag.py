"""Measurements of a history, without a verdict: the lag of readers, and the number of unseen
values."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from tests.simulation.checking.history import Assigned, History, Key, Outcome
from tests.simulation.checking.version_order import VersionOrder


def realtime_lag(history: History) -> dict[Key, int]:
    """Return the longest lag for each key, in microseconds. A poll lags if, at its start, completed
    operations had already shown a newer version than the poll returned. Its lag is the time from
    the end of the first of these operations to the start of the poll."""
    order = VersionOrder(history)
    shown = _shown(history, order)
    position: dict[tuple[int, Key], int] = {}
    worst: dict[Key, int] = {}
    for event in history.events:
        if isinstance(event, Assigned):
            for process, key in list(position):
                if process == event.process and (key not in event.keys or event.from_start):
                    del position[process, key]
            continue
        if event.outcome is not Outcome.OK or not event.polls:
            continue
        for key, _, value in event.polled():
            position[event.process, key] = order.indexes[key, value][0]
        for (process, key), rank in position.items():
            if process == event.process:
                obsolete = shown[key].since(rank)
                lag = 0 if obsolete is None else max(event.invoked - obsolete, 0)
                worst[key] = max(worst.get(key, 0), lag)
    return worst


class _Frontier:
    """For one key: the time at which each rank, or a higher rank, became known. A rank is the index
    of a version."""

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self.times: list[int] = []

    def add(self, rank: int, time: int) -> None:
        """Add a rank. Call this in the order of times."""
        if not self.ranks or rank > self.ranks[-1]:
            self.ranks.append(rank)
            self.times.append(time)

    def since(self, rank: int) -> int | None:
        slot = bisect_right(self.ranks, rank)
        return self.times[slot] if slot < len(self.ranks) else None


def _shown(history: History, order: VersionOrder) -> defaultdict[Key, _Frontier]:
    frontiers: defaultdict[Key, _Frontier] = defaultdict(_Frontier)
    for operation in sorted(history.operations, key=lambda operation: operation.completed):
        if operation.outcome is not Outcome.OK:
            continue
        values = [(send.key, send.value) for send in operation.sends]
        values += [(key, value) for key, _, value in operation.polled()]
        for pair in values:
            if pair in order.indexes:
                frontiers[pair[0]].add(order.indexes[pair][0], operation.completed)
    return frontiers


def unseen_over_time(history: History) -> list[tuple[int, int]]:
    """Return a pair for each operation: its end, and the number of acknowledged values that no
    reader has polled by that time. The last number must be 0."""
    unseen: set[tuple[Key, int]] = set()
    seen: set[tuple[Key, int]] = set()
    series = []
    for operation in sorted(history.operations, key=lambda operation: operation.completed):
        seen |= {(key, value) for key, _, value in operation.polled()}
        if operation.outcome is Outcome.OK:
            unseen |= {(send.key, send.value) for send in operation.sends}
        unseen -= seen
        series.append((operation.completed, len(unseen)))
    return series
