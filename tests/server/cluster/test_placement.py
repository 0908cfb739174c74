"""Replicas are spread over brokers and racks, and live brokers come first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.partition_additions import NewPartitions, create_partitions
from oncelog_server.cluster.placement import Placeable, place
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

RACKS = st.sampled_from([None, "a", "b", "c"])


@given(st.integers(1, 8), st.integers(0, 20), st.integers(1, 60), st.data())
def test_placement_is_distinct_and_balanced(
    size: int, first: int, count: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, size))
    start = data.draw(st.integers(0, 2**32 - 1))
    racks = {10 + number: data.draw(RACKS) for number in range(size)}
    assignments = place(Placeable(racks), start, first, count, factor)
    assert len(assignments) == count
    leads = [0] * size
    for replicas in assignments:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= racks.keys()
        leads[replicas[0] - 10] += 1
        used = {racks[broker] for broker in replicas}
        assert len(used) == min(factor, len(set(racks.values())))
    assert max(leads) - min(leads) <= 1


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 30), st.data())
def test_a_fenced_broker_is_never_first_and_used_only_for_want_of_live_ones(
    live: int, fenced: int, count: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, live + fenced))
    brokers = Placeable(
        {number: data.draw(RACKS) for number in range(live)},
        {10 + number: data.draw(RACKS) for number in range(fenced)},
    )
    for replicas in place(brokers, data.draw(st.integers(0, 99)), 0, count, factor):
        used = [broker for broker in replicas if broker >= 10]
        assert len(used) == max(0, factor - live)
        assert replicas[factor - len(used) :] == tuple(used)


def test_neighbors_are_in_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    leaders = [replicas[0] for replicas in place(Placeable(racks), 0, 0, 4, 2)]
    assert leaders == [1, 3, 2, 4]


def test_topics_with_one_partition_have_different_leaders() -> None:
    """Placement began at the broker with the lowest id for every topic."""
    cluster = Cluster((1, 2, 3))
    for number in range(30):
        cluster.create(f"t{number}", 1, 2)
    leaders = [cluster.partition(f"t{number}").leader for number in range(30)]
    assert min(leaders.count(broker) for broker in (1, 2, 3)) >= 4


def test_added_partitions_continue_the_round() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.create("whole", 6, 2)
    topic_id = cluster.image.topics["whole"].id
    cluster.apply(create_topic(cluster.image, Settings(), NewTopic("grown", 2, 2), topic_id)[1])
    cluster.apply(create_partitions(cluster.image, Settings(), NewPartitions("grown", 6)))
    whole, grown = (cluster.image.topics[name].partitions for name in ("whole", "grown"))
    assert [found.replicas for found in grown] == [found.replicas for found in whole]


def test_a_topic_may_have_fenced_replicas_and_needs_a_live_one() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.stop(3)
    cluster.drain(2)
    cluster.create("t", 4, 3)
    for number in range(4):
        found = cluster.partition("t", number)
        assert (found.replicas[0], found.isr, found.leader) == (1, (1,), 1)
        assert set(found.replicas) == {1, 2, 3}
    with pytest.raises(Refused, match="only 3 broker") as caught:
        cluster.create("wide", 1, 4)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    new = NewTopic("manual", assignments=((0, (1, 3)), (1, (3, 2))))
    with pytest.raises(Refused, match="partition 1 are fenced or in controlled shutdown") as caught:
        create_topic(cluster.image, Settings(), new, cluster.new_id())
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.stop(1)
    cluster.stop(2)
    with pytest.raises(Refused, match="All brokers are currently fenced"):
        cluster.create("none", 1, 1)
