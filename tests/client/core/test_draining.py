"""Plans that take a broker out of use."""

from __future__ import annotations

from hypothesis import given

from oncelog_client.core.draining import drain_leaders, drain_replicas
from oncelog_client.core.replica_layout import Assignment, ReplicaLayout
from oncelog_client.values import TopicPartition
from tests.client.core.test_rebalancing import Drawn, clusters, spread_of


def places(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


@given(clusters(has_racks=True, closes=True))
def test_a_drained_broker_keeps_only_what_has_no_other_place(drawn: Drawn) -> None:
    layout = ReplicaLayout(drawn.assignments, drawn.racks, drawn.racks.keys() - drawn.closed - {0})
    obstacles = drain_replicas(layout, 0)
    assert set(layout.on(0)) == set(obstacles.stuck)
    for place, old in drawn.assignments.items():
        new = layout.new[place]
        if 0 not in old:
            assert new == old, "other partitions stay"
            continue
        free = [broker for broker in layout.targets if broker not in old]
        assert (place in obstacles.stuck) == (not free)
        assert len(set(new)) == len(old)
        assert len(set(old) - set(new)) == (place not in obstacles.stuck)
        best = max(
            (spread_of((*(set(old) - {0}), broker), drawn.racks) for broker in free), default=0
        )
        assert place in obstacles.stuck or spread_of(new, drawn.racks) == best
        assert (place in obstacles.fewer_racks) == (
            spread_of(new, drawn.racks) < spread_of(old, drawn.racks)
        )


def test_a_drained_broker_is_spread_over_the_others() -> None:
    old: dict[TopicPartition, Assignment] = dict.fromkeys(places(6), (1,))
    layout = ReplicaLayout(old, dict.fromkeys((1, 2, 3, 4)), [2, 3, 4])
    assert drain_replicas(layout, 1) == ((), ())
    assert [layout.counts[broker] for broker in (1, 2, 3, 4)] == [0, 2, 2, 2]
    assert [layout.leads(broker) for broker in (2, 3, 4)] == [2, 2, 2]


def test_the_leaders_of_a_drained_broker_go_to_those_that_lead_least() -> None:
    old = dict.fromkeys(places(4), (1, 2)) | {TopicPartition("u", 0): (2, 3)}
    layout = ReplicaLayout(old, dict.fromkeys((1, 2, 3)), [2, 3])
    drain_replicas(layout, 1)
    assert sorted(layout.leads(broker) for broker in (2, 3)) == [2, 3]
    assert all(set(row) == {2, 3} for row in layout.new.values())


def test_the_rack_of_the_drained_broker_is_kept() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    layout = ReplicaLayout(dict.fromkeys(places(4), (1, 2)), racks, [2, 3, 4])
    assert drain_replicas(layout, 1) == ((), ())
    assert all(set(row) == {2, 3} for row in layout.new.values())


def test_leaders_move_without_a_copy_to_replicas_in_sync() -> None:
    first, second, third, alone = places(4)
    old = {first: (1, 2, 3), second: (1, 2, 3), third: (2, 1, 3), alone: (1,)}
    leaders = {first: 1, second: 1, third: 2, alone: 1}
    in_sync = {first: {1, 3}, second: {1, 2, 3}, third: {1, 2, 3}, alone: {1}}
    layout = ReplicaLayout(old, dict.fromkeys((1, 2, 3)), [2, 3])
    obstacles, to_elect = drain_leaders(layout, 1, leaders, in_sync)
    assert (obstacles.stuck, to_elect) == ((alone,), [first, second])
    assert layout.new == {first: (3, 2, 1), second: (2, 3, 1), third: (2, 1, 3), alone: (1,)}
    assert all(not move.added for move in layout.moves())


def test_a_leader_that_is_not_the_preferred_one_moves_too() -> None:
    (place,) = places(1)
    layout = ReplicaLayout({place: (2, 1, 3)}, dict.fromkeys((1, 2, 3)), [2, 3])
    _, to_elect = drain_leaders(layout, 1, {place: 1}, {place: {1, 3}})
    assert (layout.new[place], to_elect) == ((3, 2, 1), [place])
