"""A consumer reads from the follower that the leader has named, for a limited time (KIP-392)."""

from __future__ import annotations

from oncelog_client.core.read_replicas import ReadReplicas
from oncelog_client.values import TopicPartition

TP = TopicPartition("t", 0)
LEADER, FOLLOWER = 1, 2
ALIVE = {LEADER, FOLLOWER}
MAX_AGE_MS = 1_000


def test_without_a_follower_the_leader_is_read() -> None:
    replicas = ReadReplicas(MAX_AGE_MS)
    assert replicas.source(TP, LEADER, ALIVE, 0) == LEADER
    assert not replicas.drop(TP)


def test_a_follower_is_read_until_its_time_is_over() -> None:
    replicas = ReadReplicas(MAX_AGE_MS)
    replicas.prefer(TP, FOLLOWER, 0)
    assert replicas.source(TP, LEADER, ALIVE, MAX_AGE_MS - 1) == FOLLOWER
    assert replicas.source(TopicPartition("t", 1), LEADER, ALIVE, 0) == LEADER
    assert replicas.source(TP, LEADER, ALIVE, MAX_AGE_MS) == LEADER
    assert replicas.source(TP, LEADER, ALIVE, 0) == LEADER


def test_a_follower_that_leaves_the_cluster_or_fails_is_read_no_more() -> None:
    replicas = ReadReplicas(MAX_AGE_MS)
    replicas.prefer(TP, FOLLOWER, 0)
    assert replicas.source(TP, LEADER, {LEADER}, 1) == LEADER
    replicas.prefer(TP, FOLLOWER, 1)
    assert replicas.drop(TP)
    assert replicas.source(TP, LEADER, ALIVE, 2) == LEADER


def test_all_partitions_leave_a_follower_at_once() -> None:
    replicas = ReadReplicas(MAX_AGE_MS)
    second, third = TopicPartition("t", 1), TopicPartition("t", 2)
    for partition, node in ((TP, FOLLOWER), (second, LEADER), (third, FOLLOWER)):
        replicas.prefer(partition, node, 0)
    assert replicas.drop_follower(FOLLOWER) == [TP, third]
    assert replicas.source(TP, 3, ALIVE, 0) == 3
    assert replicas.source(second, 3, ALIVE, 0) == LEADER
    assert replicas.drop_follower(FOLLOWER) == []
