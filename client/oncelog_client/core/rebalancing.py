"""A plan that spreads replicas and preferred leaders evenly over the brokers.

The steps are in the order of their importance. No later step undoes an earlier one:

1. `spread_over_racks`: a replica that shares a rack with another replica of its partition moves to
   an unused rack.
2. `even_replicas`: the numbers of replicas of two brokers differ by at most 1. Without racks, no
   plan copies fewer replicas.
3. `even_leaders`: the numbers of preferred leaders of two brokers differ by at most 1. Another
   order of a partition's replicas copies nothing, so two replicas are exchanged only if no order
   helps.

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
    target: int


def rebalance(layout: ReplicaLayout) -> None:
    """Change the layout into a balanced one. A balanced layout does not change."""
    before = None
    # An exchange of replicas may allow a move that racks have prevented.
    while layout.targets and layout.new != before:
        before = dict(layout.new)
        spread_over_racks(layout)
        even_replicas(layout)
        even_leaders(layout)


def is_balanced(layout: ReplicaLayout) -> bool:
    """Return True if the brokers' numbers of replicas differ by at most 1, and their numbers of
    preferred leaders too."""
    replicas = [layout.counts[broker] for broker in layout.targets]
    leaders = [layout.leads(broker) for broker in layout.targets]
    return all(max(counts) - min(counts) <= 1 for counts in (replicas, leaders) if counts)


def spread_over_racks(layout: ReplicaLayout) -> None:
    """Move replicas that share a rack with another replica of their partition to a rack without a
    replica of the partition."""
    racks = {layout.rack(broker) for broker in layout.targets}
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
        if broker in layout.targets and used.count(layout.rack(broker)) > 1
    ]
    targets = [broker for broker in layout.targets if layout.rack(broker) not in used]
    if not sources:
        return None
    # The leader stays, if it can.
    source = max(sources, key=lambda broker: (broker != replicas[0], layout.counts[broker], broker))
    target = min(targets, key=lambda broker: (layout.counts[broker], broker))
    return _Step(place, source, target)


# --- replicas


def even_replicas(layout: ReplicaLayout) -> None:
    """Move replicas until the numbers of two brokers differ by at most 1, or no move is allowed
    that brings them nearer to each other."""
    _even(
        layout,
        lambda: {broker: layout.counts[broker] for broker in layout.targets},
        _move_more_evenly,
    )


def _even(
    layout: ReplicaLayout,
    counts: Callable[[], dict[int, int]],
    improve: Callable[[ReplicaLayout, _Candidates], bool],
) -> None:
    """Improve the counts until nothing helps. A broker from which nothing can move is then skipped,
    because a search through its partitions takes long. The next round of `rebalance` tries it
    again."""
    stuck: set[int | None] = set()
    while True:
        for key, candidates in _all_candidates(counts()):
            if key not in stuck:
                if improve(layout, candidates):
                    break
                stuck.add(key)
        else:
            return


def _move_more_evenly(layout: ReplicaLayout, candidates: _Candidates) -> bool:
    """Move replicas, so that a source has one replica less and a target one replica more. Return
    False if this is not possible."""
    steps = _direct(layout, candidates) or _over_others(layout, candidates)
    for place, source, target in steps or ():
        layout.replace(place, source, target)
    return steps is not None


class _Candidates(NamedTuple):
    """Brokers that a partition may move from, the highest count first, and brokers that it may move
    to, the lowest count first. A broker's count is its number of replicas or of preferred leaders.
    Each source has a count at least 2 higher than each target."""

    sources: list[int]
    targets: list[int]


def _all_candidates(counts: Mapping[int, int]) -> Iterator[tuple[int | None, _Candidates]]:
    """First yield None, with the brokers that have too high or too low a count. Then yield each
    broker, with the brokers that may get a partition from it. Yield nothing if the counts differ by
    at most 1.

    With the first candidates, a source loses only what it has too much, and a target gets only what
    it lacks, so no plan needs fewer moves. Racks may prevent these moves.
    """
    low, rest = divmod(sum(counts.values()), len(counts))
    high = low + (rest > 0)
    most_first = sorted(counts, key=lambda broker: (-counts[broker], broker))
    least_first = sorted(counts, key=lambda broker: (counts[broker], broker))
    have_more = any(count > high for count in counts.values())
    have_less = any(count < low for count in counts.values())
    if not (have_more or have_less):
        return
    # If no broker is above `high`, the brokers at `high` are the sources. If no broker is below
    # `low`, the brokers at `low` are the targets.
    source_above = high if have_more else low
    target_below = low if have_less else high
    yield (
        None,
        _Candidates(
            [broker for broker in most_first if counts[broker] > source_above],
            [broker for broker in least_first if counts[broker] < target_below],
        ),
    )
    for source in most_first:
        lower = [broker for broker in least_first if counts[broker] <= counts[source] - 2]
        if lower:
            yield source, _Candidates([source], lower)


def _direct(layout: ReplicaLayout, candidates: _Candidates) -> list[_Step] | None:
    for source in candidates.sources:
        for target in candidates.targets:
            place = layout.movable(source, target)
            if place is not None:
                return [_Step(place, source, target)]
    return None


def _over_others(layout: ReplicaLayout, candidates: _Candidates) -> list[_Step] | None:
    """Return the shortest path from a source over other brokers to a target. Each broker of the
    path passes one partition to the next. Return None if there is no path.

    Each step moves a different partition, so each step keeps to the rules independently of the
    others.
    """
    paths: dict[int, list[_Step]] = {source: [] for source in candidates.sources}
    waiting = deque(candidates.sources)
    while waiting:
        broker = waiting.popleft()
        used = {step.place for step in paths[broker]}
        for other in layout.targets:
            place = None if other in paths else layout.movable(broker, other, used)
            if place is None:
                continue
            paths[other] = [*paths[broker], _Step(place, broker, other)]
            if other in candidates.targets:
                return paths[other]
            waiting.append(other)
    return None


# --- leaders


def even_leaders(layout: ReplicaLayout) -> None:
    """Change preferred leaders until the numbers of two brokers differ by at most 1, or no change
    is allowed that brings them nearer to each other."""
    _even(
        layout,
        lambda: {broker: layout.leads(broker) for broker in layout.targets},
        _lead_more_evenly,
    )


def _lead_more_evenly(layout: ReplicaLayout, candidates: _Candidates) -> bool:
    """Change leaders, so that a source leads one partition less and a target one more. Return False
    if this is not possible."""
    steps = _reordered(layout, candidates)
    if steps is None:
        pairs = ((source, target) for source in candidates.sources for target in candidates.targets)
        return any(_exchange(layout, source, target) for source, target in pairs)
    for place, _, target in steps:
        layout.lead(place, target)
    return True


def _reordered(layout: ReplicaLayout, candidates: _Candidates) -> list[_Step] | None:
    """Return the shortest path from a source to a target. Each broker of the path leaves the lead
    of a partition to another replica of the partition. Return None if there is no path."""
    allowed = set(layout.targets)
    targets = set(candidates.targets)
    paths: dict[int, list[_Step]] = {source: [] for source in candidates.sources}
    waiting = deque(candidates.sources)
    while waiting:
        broker = waiting.popleft()
        for place in layout.led_by(broker):
            for other in layout.new[place]:
                if other in paths or other not in allowed:
                    continue
                paths[other] = [*paths[broker], _Step(place, broker, other)]
                if other in targets:
                    return paths[other]
                waiting.append(other)
    return None


def _exchange(layout: ReplicaLayout, source: int, target: int) -> bool:
    """Exchange a replica that `source` leads for one that `target` does not lead. The numbers of
    replicas stay. Return False if no two replicas can be exchanged."""
    for given in sorted(layout.led_by(source), key=layout.size):
        if not layout.may_replace(given, source, target):
            continue
        for taken in sorted(layout.on(target), key=layout.size):
            is_led = layout.new[taken][0] == target
            if not is_led and layout.may_replace(taken, target, source):
                layout.replace(given, source, target)
                layout.replace(taken, target, source)
                return True
    return False
