"""Partitions are shared as Kafka's assignors share them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.assignors import (
    ASSIGNORS,
    Assignment,
    MemberSubscription,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky,
    cooperative,
    generation_in_user_data,
)
from oncelog_client.values import TopicPartition


def members(**topics: str) -> dict[str, MemberSubscription]:
    return {name: MemberSubscription(frozenset(wanted)) for name, wanted in topics.items()}


def shown(assignment: Assignment) -> dict[str, list[str]]:
    return {name: [f"{t}{p}" for t, p in given] for name, given in assignment.items()}


def test_range_gives_consecutive_partitions_topic_by_topic() -> None:
    given = assign_range({"a": 3, "b": 3}, members(m1="ab", m2="ab"))
    assert shown(given) == {"m1": ["a0", "a1", "b0", "b1"], "m2": ["a2", "b2"]}


def test_static_members_come_first_by_instance_id() -> None:
    given = assign_range(
        {"a": 3},
        {
            "m1": MemberSubscription(frozenset("a")),
            "m2": MemberSubscription(frozenset("a"), group_instance_id="z"),
            "m3": MemberSubscription(frozenset("a"), group_instance_id="y"),
        },
    )
    assert shown(given) == {"m1": ["a2"], "m2": ["a1"], "m3": ["a0"]}


def test_round_robin_deals_partitions_out_in_turn() -> None:
    given = assign_round_robin({"a": 3, "b": 3}, members(m1="ab", m2="ab"))
    assert shown(given) == {"m1": ["a0", "a2", "b1"], "m2": ["a1", "b0", "b2"]}


def test_round_robin_passes_over_members_that_do_not_want_the_topic() -> None:
    # The example of Kafka's documentation of RoundRobinAssignor.
    given = assign_round_robin({"x": 1, "y": 2, "z": 3}, members(m0="x", m1="xy", m2="xyz"))
    assert shown(given) == {"m0": ["x0"], "m1": ["y0"], "m2": ["y1", "z0", "z1", "z2"]}


def owning(previous: Assignment, generation: int = 1) -> dict[str, MemberSubscription]:
    return {
        name: MemberSubscription(frozenset("ab"), tuple(held), generation)
        for name, held in previous.items()
    }


def test_sticky_moves_partitions_only_to_a_new_member() -> None:
    before = assign_sticky({"a": 4, "b": 2}, members(m1="ab", m2="ab"))
    after = assign_sticky(
        {"a": 4, "b": 2}, {**owning(before), "m3": MemberSubscription(frozenset("ab"))}
    )
    assert [len(after[name]) for name in ("m1", "m2", "m3")] == [2, 2, 2]
    assert set(after["m1"]) < set(before["m1"])
    assert set(after["m2"]) < set(before["m2"])


def test_of_two_claims_to_a_partition_the_newer_generation_counts() -> None:
    held = (TopicPartition("a", 0), TopicPartition("a", 1))
    claims = {
        "m1": MemberSubscription(frozenset("a"), held[:1], 5),
        "m2": MemberSubscription(frozenset("a"), held, 4),
    }
    assert shown(assign_sticky({"a": 2}, claims)) == {"m1": ["a0"], "m2": ["a1"]}
    equal = {name: MemberSubscription(frozenset("a"), held[:1], 5) for name in ("m1", "m2")}
    assert sum(map(len, assign_sticky({"a": 1}, equal).values())) == 1


def test_cooperative_gives_no_member_a_partition_that_another_holds() -> None:
    everything = {"m1": [TopicPartition("a", p) for p in range(4)]}
    group = {**owning(everything), "m2": MemberSubscription(frozenset("ab"))}
    first = assign_cooperative_sticky({"a": 4}, group)
    assert (len(first["m1"]), first["m2"]) == (2, [])
    second = assign_cooperative_sticky({"a": 4}, owning(first, 2))
    assert second["m1"] == first["m1"]
    assert len(second["m2"]) == 2


TOPICS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 8), min_size=1)
GROUPS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4"]),
    st.builds(MemberSubscription, st.frozensets(st.sampled_from("abcd"))),
    min_size=1,
)


@given(TOPICS, GROUPS, st.sampled_from(sorted(ASSIGNORS)))
def test_every_wanted_partition_has_exactly_one_subscribed_reader(
    topics: dict[str, int], group: dict[str, MemberSubscription], name: str
) -> None:
    given = ASSIGNORS[name].assign(topics, group)
    assert set(given) == set(group)
    dealt = [tp for assigned in given.values() for tp in assigned]
    wanted = {topic for member in group.values() for topic in member.topics}
    expected = [TopicPartition(t, p) for t, n in topics.items() if t in wanted for p in range(n)]
    assert sorted(dealt) == sorted(expected)
    assert all(tp.topic in group[name].topics for name, held in given.items() for tp in held)


@given(st.integers(1, 20), st.integers(1, 6), st.data())
def test_sticky_is_even_and_stable_for_equal_subscriptions(
    partitions: int, count: int, data: st.DataObject
) -> None:
    names = [f"m{n}" for n in range(count)]
    owners = [data.draw(st.sampled_from([*names, None])) for _ in range(partitions)]
    group = {
        name: MemberSubscription(
            frozenset("a"),
            tuple(TopicPartition("a", p) for p, owner in enumerate(owners) if owner == name),
            1,
        )
        for name in names
    }
    given = assign_sticky({"a": partitions}, group)
    sizes = [len(held) for held in given.values()]
    assert max(sizes) - min(sizes) <= 1
    again = {
        name: MemberSubscription(frozenset("a"), tuple(held), 2) for name, held in given.items()
    }
    assert assign_sticky({"a": partitions}, again) == given


@given(st.integers(1, 12), st.integers(1, 4))
def test_cooperative_is_even_after_three_rounds(partitions: int, count: int) -> None:
    held: Assignment = {"m0": [TopicPartition("a", p) for p in range(partitions)]}
    for name in range(1, count):
        held[f"m{name}"] = []
    for generation in range(3):
        held = assign_cooperative_sticky({"a": partitions}, owning(held, generation))
    assert sum(map(len, held.values())) == partitions
    assert max(map(len, held.values())) - min(map(len, held.values())) <= 1


def test_a_member_is_cooperative_only_if_all_its_assignors_are() -> None:
    assert cooperative(["cooperative-sticky"])
    assert not cooperative(["range", "cooperative-sticky"])


def test_the_generation_in_the_user_data_has_javas_format() -> None:
    data = ASSIGNORS["cooperative-sticky"].user_data(7)
    assert data == b"\0\0\0\x07"
    assert generation_in_user_data(data) == 7
    assert generation_in_user_data(None) == -1
    assert ASSIGNORS["range"].user_data(7) is None
