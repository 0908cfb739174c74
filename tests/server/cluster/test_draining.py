"""The partitions for which a stop waits: another live replica can lead them, at once or as soon as
it is in the ISR."""

from __future__ import annotations

import pytest

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.draining import begin_draining, led_by, still_to_move
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.topic_partition import TopicPartition
from tests.server.cluster.clusters import Cluster
from tests.server.cluster.test_controller import WHOLE, State, cluster_with

NAME = TopicPartition("t", 0)
ALONE: State = (1, (1,), (), ())


def drain(cluster: Cluster, broker: int) -> bool:
    epoch = cluster.image.brokers[broker].epoch
    return cluster.apply([begin_draining(broker, epoch, 7)])


@pytest.mark.parametrize(
    ("state", "dead", "draining", "waits"),
    [
        pytest.param(WHOLE, (), (1,), True, id="before the election"),
        pytest.param(ALONE, (), (1,), True, id="a replica that catches up"),
        pytest.param(ALONE, (2, 3), (1,), False, id="no live replica"),
        pytest.param(WHOLE, (), (1, 2, 3), False, id="all stop"),
        pytest.param(WHOLE, (3,), (1, 2), False, id="the others stop or are dead"),
    ],
)
def test_a_stop_waits_for_a_partition_that_a_live_replica_can_lead(
    state: State, dead: tuple[int, ...], draining: tuple[int, ...], waits: bool
) -> None:
    cluster = cluster_with(state)
    cluster.stop(*dead)
    for broker in draining:
        assert drain(cluster, broker)
    led = led_by(cluster.image, 1)
    assert led == [NAME]
    assert still_to_move(cluster.image, 1, led) == ([NAME] if waits else [])


def test_a_stop_waits_no_longer_when_another_broker_leads() -> None:
    cluster = cluster_with(WHOLE)
    led = led_by(cluster.image, 1)
    drain(cluster, 1)
    cluster.apply(elect_leaders(cluster.image, ElectionRules()))
    assert (led_by(cluster.image, 1), still_to_move(cluster.image, 1, led)) == ([], [])
    assert still_to_move(cluster.image, 1, [TopicPartition("deleted", 0)]) == []


def test_only_a_registered_broker_drains_and_its_key_has_the_lease() -> None:
    cluster = cluster_with(WHOLE)
    stale = begin_draining(1, cluster.image.brokers[1].epoch, 7)
    assert [operation.lease_id for operation in stale.operations] == [7]  # type: ignore[union-attr]
    cluster.restart(1)
    assert not cluster.apply([stale])
    assert records.draining_key(1) not in cluster.entries
