"""A broker lists the replicas that it cannot serve, and other brokers lead their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from oncelog_server.cluster import controller, records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.failed_replicas import Unserved, failed_replica_writes
from oncelog_server.cluster.partition_change import ElectionRules, next_record
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Put, Write
from oncelog_server.topic_partition import TopicPartition
from tests.server.cluster.clusters import Cluster
from tests.server.cluster.test_controller import WHOLE, State, cluster_with

NAME = TopicPartition("t", 0)
LEASE_ID = 7


def listed(
    cluster: Cluster,
    offline: Mapping[TopicPartition, str],
    refusing: Mapping[TopicPartition, str] | None = None,
    *,
    broker: int = 1,
) -> list[Write]:
    epoch = cluster.image.brokers[broker].epoch
    unserved = Unserved(offline, refusing or {})
    rules = ElectionRules(min_insync_replicas=2)
    return failed_replica_writes(cluster.image, rules, broker, epoch, LEASE_ID, unserved)


def elect(cluster: Cluster) -> tuple[int, tuple[int, ...]]:
    cluster.apply(elect_leaders(cluster.image, ElectionRules()))
    partition = cluster.partition("t")
    return partition.leader, partition.isr


def test_another_replica_leads_until_the_failed_one_is_back_in_the_isr() -> None:
    cluster = cluster_with(WHOLE)
    assert cluster.apply(listed(cluster, {NAME: "sync: Input/output error"}))
    assert elect(cluster) == (2, (2, 3))
    assert listed(cluster, {NAME: "another reason"}) == []
    assert cluster.apply(listed(cluster, {}))
    assert cluster.image.failed == {}
    assert elect(cluster) == (2, (2, 3))


def test_the_keys_end_with_the_registration() -> None:
    cluster = cluster_with(WHOLE)
    writes = listed(cluster, {NAME: "x" * 10_000})
    (put,) = writes[0].operations
    assert isinstance(put, Put)
    assert put.lease_id == LEASE_ID
    assert len(put.value) < 1_000
    cluster.restart(1)
    assert not cluster.apply(writes)
    assert not any(key.startswith(records.FAILED) for key in cluster.entries)


def test_only_replicas_of_known_partitions_are_listed() -> None:
    cluster = cluster_with((2, (2, 3), (), ()))
    partition = cluster.partition("t")
    moved = records.PartitionRecord((2, 3), (2, 3), 2, partition.leader_epoch + 1)
    cluster.put_partition("t", moved)
    offline = dict.fromkeys([NAME, TopicPartition("t", 9), TopicPartition("deleted", 0)], "reason")
    assert listed(cluster, offline) == []


def test_a_broker_leaves_the_lists_of_others() -> None:
    cluster = cluster_with(WHOLE)
    cluster.apply(listed(cluster, {NAME: "reason"}, broker=2))
    assert listed(cluster, {}) == []
    assert elect(cluster) == (1, (1, 3))


def test_a_controller_decides_only_for_partitions_with_a_failed_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that fails has thousands of partitions, and each change is decided for all of them."""
    decided: list[int] = []

    def noted(*args: Any) -> PartitionRecord | None:
        decided.append(args[3].partition)
        return next_record(*args)

    monkeypatch.setattr(controller, "next_record", noted)
    cluster = Cluster((1, 2, 3))
    cluster.create("t", partitions=3, replicas=3)
    epochs = tuple(cluster.image.brokers[broker].epoch for broker in (2, 3))
    cluster.put_partition("t", PartitionRecord((2, 3, 1), (2, 3), 2, 5, isr_epochs=epochs), 1)
    cluster.apply(listed(cluster, {TopicPartition("t", index): "reason" for index in (0, 1)}))
    cluster.apply(elect_leaders(cluster.image, ElectionRules()))
    assert decided == [0]
    # In partition 1 the failed replica is not in the ISR, so there is nothing to decide.
    topic = cluster.image.topics["t"]
    assert next_record(cluster.image, ElectionRules(), topic, topic.partitions[1]) is None


FULL = {NAME: "No space left on device"}


@pytest.mark.parametrize(
    ("state", "dead", "is_listed"),
    [
        pytest.param(WHOLE, (), True, id="the leader"),
        pytest.param((2, (1, 2, 3), (), ()), (), True, id="a follower would hold producers up"),
        pytest.param((1, (1, 2), (), ()), (), False, id="too few others in sync"),
        pytest.param(WHOLE, (3,), False, id="too few others alive"),
    ],
)
def test_a_replica_that_only_refuses_appends_is_listed_if_the_others_can_take_them(
    state: State, dead: tuple[int, ...], is_listed: bool
) -> None:
    cluster = cluster_with(state)
    cluster.stop(*dead)
    assert bool(listed(cluster, {}, FULL)) is is_listed
    assert listed(cluster, FULL), "an offline replica is always listed"


def test_the_last_replicas_with_full_disks_stay_readable() -> None:
    cluster = cluster_with(WHOLE)
    cluster.apply(listed(cluster, {}, FULL))
    assert elect(cluster) == (2, (2, 3))
    assert listed(cluster, {}, FULL, broker=2) == []
    assert listed(cluster, {}, FULL) == [], "it is on the list until it takes appends again"
    cluster.apply(listed(cluster, {}))
    assert cluster.image.failed == {}


def test_disks_that_are_full_at_the_same_moment_leave_enough_replicas_in_the_isr() -> None:
    """The brokers decide from the same image."""
    cluster = cluster_with(WHOLE)
    first, second = (listed(cluster, {}, FULL, broker=broker) for broker in (1, 2))
    assert cluster.apply(first)
    assert not cluster.apply(second)
    assert listed(cluster, {}, FULL, broker=2) == []
    assert elect(cluster) == (2, (2, 3))
