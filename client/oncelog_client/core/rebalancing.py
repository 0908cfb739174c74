"""A plan that spreads replicas and preferred leaders evenly over the brokers.

The steps are in the order of their importance. No later step undoes an earlier one:

1. `spread_over_racks`: a partition with two replicas in one rack gets another rack.
2. `even_replicas`: the numbers of replicas of two brokers differ by at most 1. Without racks, no
   plan copies fewer replicas.
3. `even_leaders`: so do the numbers of preferred leaders. Another order of a partition's replicas
   copies nothing, so two replicas are exchanged only if no order helps.

Racks may make an even distribution impossible. A plan then is as even as the moves within these
rules can make it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from oncelog_client.core.replica_layout import ReplicaLayout
from oncelog_client.values import TopicPartition


class _Step(NamedTuple):
    """A partition that goes from one broker to another."""

    place: TopicPartition
    source: int
    sink: int


def rebalance(layout: ReplicaLayout) -> None:
    """Change the layout into a balanced one. A balanced layout does not change."""
    if layout.open_to:
        spread_over_racks(layout)
        even_replicas(layout)
        even_leaders(layout)


def spread_over_racks(layout: ReplicaLayout) -> None:
    """Move replicas that share a rack with another replica of their partition to a rack without."""
    racks = {layout.rack(broker) for broker in layout.open_to}
    for place in layout.old:
        while (step := _into_another_rack(layout, place, racks)) is not None:
            layout.replace(*step)


def _into_another_rack(
    layout: ReplicaLayout, place: TopicPartition, racks: set[str | None]
) -> _Step | None:
    replicas = layout.new[place]
    used = [layout.rack(broker) for broker in replicas]
    if len(set(used)) == len(used) or racks <= set(used):
        return None
    sources = [
        broker
        for broker in replicas
        if broker in layout.open_to and used.count(layout.rack(broker)) > 1
    ]
    sinks = [broker for broker in layout.open_to if layout.rack(broker) not in used]
    if not sources:
        return None
    # The leader stays, if it can.
    source = max(sources, key=lambda broker: (broker != replicas[0], layout.counts[broker], broker))
    sink = min(sinks, key=lambda broker: (layout.counts[broker], broker))
    return _Step(place, source, sink)


# --- replicas


def even_replicas(layout: ReplicaLayout) -> None:
    """Move replicas until the numbers of two brokers differ by at most 1."""
    while True:
        counts = {broker: layout.counts[broker] for broker in layout.open_to}
        steps = _first(_direct(layout, counts)) or _over_others(counts, layout.movable)
        if steps is None:
            return
        for place, source, sink in steps:
            layout.replace(place, source, sink)


def _direct(layout: ReplicaLayout, counts: Mapping[int, int]) -> Iterator[list[_Step]]:
    sources, sinks = _ends(counts)
    for source in sources:
        for sink in sinks:
            place = layout.movable(source, sink)
            if place is not None:
                yield [_Step(place, source, sink)]


def _first(found: Iterator[list[_Step]]) -> list[_Step] | None:
    return next(found, None)


def _ends(counts: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Return the brokers that must give, most first, and those that must get, least first. Both are
    empty if the numbers differ by at most 1.

    A broker gives only what it has too much, and gets only what it has too little. So no plan needs
    fewer moves.
    """
    low, rest = divmod(sum(counts.values()), len(counts))
    high = low + (rest > 0)
    giving = {broker for broker, count in counts.items() if count > high}
    getting = {broker for broker, count in counts.items() if count < low}
    if not giving and not getting:
        return [], []
    giving = giving or {broker for broker, count in counts.items() if count > low}
    getting = getting or {broker for broker, count in counts.items() if count < high}
    return (
        sorted(giving, key=lambda broker: (-counts[broker], broker)),
        sorted(getting, key=lambda broker: (counts[broker], broker)),
    )


Movable = Callable[[int, int, set[TopicPartition]], TopicPartition | None]


def _over_others(counts: Mapping[int, int], movable: Movable) -> list[_Step] | None:
    """Return the shortest way from a giving broker over others to a getting one, on which each
    broker gives one partition to the next. Return None if there is none.

    Each step moves another partition, so that the rules for one step hold for all.
    """
    sources, sinks = _ends(counts)
    ways: dict[int, list[_Step]] = {source: [] for source in sources}
    waiting = deque(sources)
    while waiting:
        broker = waiting.popleft()
        used = {step.place for step in ways[broker]}
        for other in sorted(set(counts) - ways.keys()):
            place = movable(broker, other, used)
            if place is None:
                continue
            ways[other] = [*ways[broker], _Step(place, broker, other)]
            if other in sinks:
                return ways[other]
            waiting.append(other)
    return None


# --- leaders


def even_leaders(layout: ReplicaLayout) -> None:
    """Change preferred leaders until the numbers of two brokers differ by at most 1."""
    while True:
        counts = {broker: layout.leads(broker) for broker in layout.open_to}
        sources, sinks = _ends(counts)
        steps = _reordered(layout, sources, set(sinks))
        if steps is not None:
            for place, _, sink in steps:
                layout.lead(place, sink)
        elif not any(_exchange(layout, source, sink) for source in sources for sink in sinks):
            return


def _reordered(layout: ReplicaLayout, sources: list[int], sinks: set[int]) -> list[_Step] | None:
    """Return the shortest way from a giving broker to a getting one, on which each broker leaves a
    partition to another of its replicas. Return None if there is none."""
    is_open = set(layout.open_to)
    ways: dict[int, list[_Step]] = {source: [] for source in sources}
    waiting = deque(sources)
    while waiting:
        broker = waiting.popleft()
        for place in layout.led_by(broker):
            for other in layout.new[place]:
                if other in ways or other not in is_open:
                    continue
                ways[other] = [*ways[broker], _Step(place, broker, other)]
                if other in sinks:
                    return ways[other]
                waiting.append(other)
    return None


def _exchange(layout: ReplicaLayout, source: int, sink: int) -> bool:
    """Exchange a replica that `source` leads for one that `sink` does not lead. The numbers of
    replicas stay. Return False if no two replicas can be exchanged."""
    for given in sorted(layout.led_by(source), key=layout.size):
        if not layout.may_replace(given, source, sink):
            continue
        for taken in sorted(layout.on(sink), key=layout.size):
            is_led = layout.new[taken][0] == sink
            if not is_led and layout.may_replace(taken, sink, source):
                layout.replace(given, source, sink)
                layout.replace(taken, sink, source)
                return True
    return False
