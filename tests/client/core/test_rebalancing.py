"""Plans that spread replicas and leaders: what holds for every cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_client.core.rebalancing import even_leaders, even_replicas, is_balanced, rebalance
from oncelog_client.core.replica_layout import Assignment, ReplicaLayout
from oncelog_client.values import TopicPartition

MOST_BROKERS: Final = 6
RACKS: Final = ("a", "b", "c")


class Drawn(NamedTuple):
    """A cluster. The brokers in `closed` are alive and get no replicas, or are stopped."""

    assignments: dict[TopicPartition, Assignment]
    racks: dict[int, str | None]
    closed: frozenset[int] = frozenset()

    def layout(self) -> ReplicaLayout:
        return ReplicaLayout(self.assignments, self.racks, self.racks.keys() - self.closed)


def clusters(*, has_racks: bool = False, closes: bool = False) -> st.SearchStrategy[Drawn]:
    return st.integers(1, MOST_BROKERS).flatmap(
        lambda size: st.builds(
            Drawn,
            st.dictionaries(
                st.builds(TopicPartition, st.sampled_from(["t", "u", "v"]), st.integers(0, 9)),
                st.permutations(range(size)).flatmap(
                    lambda order: st.integers(1, size).map(lambda count: tuple(order[:count]))
                ),
                max_size=25,
            ),
            st.fixed_dictionaries(
                {
                    number: st.sampled_from(RACKS) if has_racks else st.none()
                    for number in range(size)
                }
            ),
            st.sets(st.integers(0, size - 1), max_size=size - 1).map(frozenset)
            if closes
            else st.just(frozenset[int]()),
        )
    )


def spread_of(replicas: Assignment, racks: Mapping[int, str | None]) -> int:
    return len({racks[broker] for broker in replicas})


def differ_by_one_at_most(counts: Mapping[int, int], brokers: frozenset[int]) -> bool:
    found = [counts.get(broker, 0) for broker in brokers]
    return max(found) - min(found) <= 1


def numbers(layout: ReplicaLayout) -> tuple[Counter[int], Counter[int]]:
    """Return the numbers of replicas and of leaders, counted anew."""
    replicas = Counter(broker for row in layout.new.values() for broker in row)
    return replicas, Counter(row[0] for row in layout.new.values())


@given(clusters(has_racks=True, closes=True))
def test_no_plan_loses_a_replica_doubles_one_or_leaves_a_rack(drawn: Drawn) -> None:
    layout = drawn.layout()
    rebalance(layout)
    for place, old in drawn.assignments.items():
        new = layout.new[place]
        assert len(new) == len(old)
        assert len(set(new)) == len(new)
        assert spread_of(new, drawn.racks) >= spread_of(old, drawn.racks)
        gained = set(new) - set(old)
        assert not gained & drawn.closed, "a closed broker gets nothing"
        assert drawn.closed & set(old) <= set(new), "a closed broker keeps what it has"
    replicas, leaders = numbers(layout)
    assert replicas == +layout.counts
    assert all(layout.leads(broker) == leaders[broker] for broker in drawn.racks)


@given(clusters(closes=True))
@example(Drawn({TopicPartition("t", n): (0, 1) for n in range(3)}, {0: None, 1: None, 2: None}))
def test_without_racks_all_plans_are_balanced_within_one(drawn: Drawn) -> None:
    layout = drawn.layout()
    rebalance(layout)
    replicas, leaders = numbers(layout)
    allowed = frozenset(layout.targets)
    assert differ_by_one_at_most(replicas, allowed)
    assert differ_by_one_at_most(leaders, allowed)
    assert is_balanced(layout)


@given(clusters(has_racks=True, closes=True))
def test_a_second_plan_moves_nothing(drawn: Drawn) -> None:
    first = drawn.layout()
    rebalance(first)
    second = Drawn(first.new, drawn.racks, drawn.closed).layout()
    rebalance(second)
    assert second.moves() == []


@given(clusters())
def test_no_plan_copies_fewer_replicas(drawn: Drawn) -> None:
    """Each copy takes a replica from a broker with too many, or brings one to a broker with too
    few."""
    layout = drawn.layout()
    before, _ = numbers(layout)
    even_replicas(layout)
    low, rest = divmod(sum(before.values()), len(drawn.racks))
    counts = [before[broker] for broker in drawn.racks]
    too_many = sum(max(count - low - (rest > 0), 0) for count in counts)
    too_few = sum(max(low - count, 0) for count in counts)
    assert sum(len(move.added) for move in layout.moves()) == max(too_many, too_few)


@given(clusters())
def test_leaders_move_by_another_order_if_that_is_enough(drawn: Drawn) -> None:
    """If each broker has all partitions, no record is copied."""
    size = len(drawn.racks)
    everywhere = {
        place: (*row, *sorted(set(range(size)) - set(row)))
        for place, row in drawn.assignments.items()
    }
    layout = Drawn(everywhere, drawn.racks).layout()
    even_leaders(layout)
    assert all(not move.added for move in layout.moves())
    _, leaders = numbers(layout)
    assert differ_by_one_at_most(leaders, frozenset(drawn.racks))


def test_a_new_broker_gets_its_share_of_each_topic() -> None:
    assignments = {
        TopicPartition(topic, number): ((1, 2, 3) * 2)[number % 3 : number % 3 + 3]
        for topic in ("t", "u")
        for number in range(6)
    }
    layout = Drawn(assignments, dict.fromkeys((1, 2, 3, 4))).layout()
    rebalance(layout)
    assert [layout.counts[broker] for broker in (1, 2, 3, 4)] == [9, 9, 9, 9]
    assert [layout.leads(broker) for broker in (1, 2, 3, 4)] == [3, 3, 3, 3]
    assert sum(len(move.added) for move in layout.moves()) == 9
    assert {topic: layout.count_of(4, topic) for topic in "tu"} in (
        {"t": 4, "u": 5},
        {"t": 5, "u": 4},
    )


def test_a_partition_in_one_rack_gets_another() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    layout = Drawn({TopicPartition("t", 0): (1, 2)}, racks).layout()
    rebalance(layout)
    (move,) = layout.moves()
    assert move.new[0] == 1, "the leader stays"
    assert spread_of(move.new, racks) == 2


def test_racks_of_one_size_stay_balanced_when_a_broker_joins_each() -> None:
    racks: dict[int, str | None] = {number: "abc"[number % 3] for number in range(6)}
    old = {TopicPartition("t", n): tuple((n + step) % 3 for step in range(3)) for n in range(12)}
    layout = Drawn(old, racks).layout()
    rebalance(layout)
    assert [layout.counts[number] for number in racks] == [6] * 6
    assert [layout.leads(number) for number in racks] == [2] * 6
    assert all(spread_of(row, racks) == 3 for row in layout.new.values())


def test_small_partitions_are_copied_first() -> None:
    old = {TopicPartition("t", number): (1,) for number in range(4)}
    sizes = {place: 100 - place.partition for place in old}
    layout = ReplicaLayout(old, {1: None, 2: None}, [1, 2], sizes)
    rebalance(layout)
    assert [move.place.partition for move in layout.moves()] == [2, 3]


def test_a_cluster_without_open_brokers_stays_as_it_is() -> None:
    layout = ReplicaLayout({TopicPartition("t", 0): (1,)}, {1: None}, [])
    rebalance(layout)
    assert layout.moves() == []


def test_replicas_are_exchanged_if_no_order_makes_the_leaders_even() -> None:
    """Broker 0 has the only replicas of three partitions, and must lead them all."""
    old: dict[TopicPartition, Assignment] = {
        TopicPartition("t", number): (0,) for number in range(3)
    }
    old |= {TopicPartition("u", number): (1, 2) for number in range(3)}
    layout = Drawn(old, dict.fromkeys(range(3))).layout()
    rebalance(layout)
    assert [layout.leads(broker) for broker in range(3)] == [2, 2, 2]
    assert [layout.counts[broker] for broker in range(3)] == [3, 3, 3]


def test_a_third_broker_passes_on_what_racks_keep_from_another() -> None:
    """No partition of broker 1 may go to broker 4, because each has a replica on broker 2, in the
    rack of broker 4."""
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "c", 4: "b", 5: "a"}
    rows: dict[str, list[Assignment]] = {"t": [(1, 2)] * 3, "u": [(3, 5)] * 2, "v": [(4, 5)]}
    old = {
        TopicPartition(topic, number): row
        for topic, found in rows.items()
        for number, row in enumerate(found)
    }
    layout = Drawn(old, racks, frozenset({2, 5})).layout()
    even_replicas(layout)
    assert [layout.counts[broker] for broker in (1, 3, 4)] == [2, 2, 2]


def test_racks_may_allow_no_balance() -> None:
    """Each partition has a replica in rack `b`, which has one broker."""
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    old: dict[TopicPartition, Assignment] = {
        TopicPartition("t", number): (1, 3) for number in range(4)
    }
    layout = Drawn(old, racks).layout()
    rebalance(layout)
    assert [layout.counts[broker] for broker in (1, 2, 3)] == [2, 2, 4]
    assert not is_balanced(layout)


@given(clusters(has_racks=True, closes=True))
def test_no_move_that_racks_allow_is_left_out(drawn: Drawn) -> None:
    layout = drawn.layout()
    rebalance(layout)
    for source in layout.targets:
        for target in layout.targets:
            if layout.counts[source] - layout.counts[target] >= 2:
                assert layout.movable(source, target) is None
