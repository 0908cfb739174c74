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
    before = None
    # An exchange of replicas may allow a move that racks have prevented.
    while layout.open_to and layout.new != before:
        before = dict(layout.new)
        spread_over_racks(layout)
        even_replicas(layout)
        even_leaders(layout)


def is_balanced(layout: ReplicaLayout) -> bool:
    """Return True if the numbers of replicas, and those of leaders, differ by at most 1."""
    replicas = [layout.counts[broker] for broker in layout.open_to]
    leaders = [layout.leads(broker) for broker in layout.open_to]
    return all(max(counts) - min(counts) <= 1 for counts in (replicas, leaders) if counts)


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
    """Move replicas until the numbers of two brokers differ by at most 1, or no move is allowed
    that brings them nearer to each other."""
    _even(
        layout,
        lambda: {broker: layout.counts[broker] for broker in layout.open_to},
        _move_more_evenly,
    )


def _even(
    layout: ReplicaLayout,
    counts: Callable[[], dict[int, int]],
    improve: Callable[[ReplicaLayout, _Ends], bool],
) -> None:
    """Improve the counts until nothing helps. Brokers that have no way to give are not looked at
    again, because a look at all their partitions takes long; `rebalance` begins once more."""
    stuck: set[int | None] = set()
    while True:
        for key, ends in _all_ends(counts()):
            if key not in stuck:
                if improve(layout, ends):
                    break
                stuck.add(key)
        else:
            return


def _move_more_evenly(layout: ReplicaLayout, ends: _Ends) -> bool:
    """Let a giving broker have one replica less, and a getting one more. Return False if this is
    not possible."""
    steps = _direct(layout, ends) or _over_others(layout, ends)
    for place, source, sink in steps or ():
        layout.replace(place, source, sink)
    return steps is not None


class _Ends(NamedTuple):
    """Brokers that may give, most first, and brokers that may get, least first. Each giving one has
    at least 2 more than each getting one."""

    giving: list[int]
    getting: list[int]


def _all_ends(counts: Mapping[int, int]) -> Iterator[tuple[int | None, _Ends]]:
    """Yield the brokers that must give and get, with None, then each broker with those that may get
    from it. Yield nothing if the numbers differ by at most 1.

    Of the first ones, a broker gives only what it has too much, and gets only what it has too
    little. So no plan needs fewer moves. Racks may prevent these moves.
    """
    low, rest = divmod(sum(counts.values()), len(counts))
    high = low + (rest > 0)
    giving = [broker for broker, count in counts.items() if count > high]
    getting = [broker for broker, count in counts.items() if count < low]
    if not giving and not getting:
        return
    most_first = sorted(counts, key=lambda broker: (-counts[broker], broker))
    least_first = sorted(counts, key=lambda broker: (counts[broker], broker))
    least_given = high if giving else low
    most_got = low if getting else high
    yield (
        None,
        _Ends(
            [broker for broker in most_first if counts[broker] > least_given],
            [broker for broker in least_first if counts[broker] < most_got],
        ),
    )
    for source in most_first:
        lower = [broker for broker in least_first if counts[broker] <= counts[source] - 2]
        if lower:
            yield source, _Ends([source], lower)


def _direct(layout: ReplicaLayout, ends: _Ends) -> list[_Step] | None:
    for source in ends.giving:
        for sink in ends.getting:
            place = layout.movable(source, sink)
            if place is not None:
                return [_Step(place, source, sink)]
    return None


def _over_others(layout: ReplicaLayout, ends: _Ends) -> list[_Step] | None:
    """Return the shortest way from a giving broker over others to a getting one, on which each
    broker gives one partition to the next. Return None if there is none.

    Each step moves another partition, so that the rules for one step hold for all.
    """
    ways: dict[int, list[_Step]] = {source: [] for source in ends.giving}
    waiting = deque(ends.giving)
    while waiting:
        broker = waiting.popleft()
        used = {step.place for step in ways[broker]}
        for other in layout.open_to:
            place = None if other in ways else layout.movable(broker, other, used)
            if place is None:
                continue
            ways[other] = [*ways[broker], _Step(place, broker, other)]
            if other in ends.getting:
                return ways[other]
            waiting.append(other)
    return None


# --- leaders


def even_leaders(layout: ReplicaLayout) -> None:
    """Change preferred leaders until the numbers of two brokers differ by at most 1, or no change
    is allowed that brings them nearer to each other."""
    _even(
        layout,
        lambda: {broker: layout.leads(broker) for broker in layout.open_to},
        _lead_more_evenly,
    )


def _lead_more_evenly(layout: ReplicaLayout, ends: _Ends) -> bool:
    """Let a giving broker lead one partition less, and a getting one more. Return False if this is
    not possible."""
    steps = _reordered(layout, ends)
    if steps is None:
        pairs = ((source, sink) for source in ends.giving for sink in ends.getting)
        return any(_exchange(layout, source, sink) for source, sink in pairs)
    for place, _, sink in steps:
        layout.lead(place, sink)
    return True


def _reordered(layout: ReplicaLayout, ends: _Ends) -> list[_Step] | None:
    """Return the shortest way from a giving broker to a getting one, on which each broker leaves a
    partition to another of its replicas. Return None if there is none."""
    is_open = set(layout.open_to)
    sinks = set(ends.getting)
    ways: dict[int, list[_Step]] = {source: [] for source in ends.giving}
    waiting = deque(ends.giving)
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
