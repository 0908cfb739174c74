"""A leader changes the ISR by a conditional write, which a stale leader or follower cannot make."""

from __future__ import annotations

import pytest
from msgspec import structs

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.isr_changes import IsrChange, IsrWrites, Leader, halves, isr_writes
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.store import MAX_OPERATIONS
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

RULES = ElectionRules(min_insync_replicas=2)


def cluster_of(partitions: int = 1, replicas: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    """Return a cluster with a topic that broker 1 leads."""
    cluster = Cluster(range(1, max(replicas) + 1))
    new = NewTopic("t", assignments=tuple((number, replicas) for number in range(partitions)))
    writes = create_topic(cluster.image, Settings(), new, cluster.new_id())[1]
    assert cluster.apply(writes)
    return cluster


def change(cluster: Cluster, isr: tuple[int, ...], *joining: int, number: int = 0) -> IsrChange:
    partition = cluster.partition("t", number)
    return IsrChange(
        partition.topic_id,
        number,
        partition.leader_epoch,
        partition.partition_epoch,
        isr,
        {broker: cluster.image.brokers[broker].epoch for broker in joining},
    )


def leader(cluster: Cluster) -> Leader:
    return Leader(1, cluster.image.brokers[1].epoch)


def decided(cluster: Cluster, *changes: IsrChange) -> IsrWrites:
    return isr_writes(cluster.image, RULES, leader(cluster), changes)


def apply(cluster: Cluster, *changes: IsrChange) -> bool:
    found = decided(cluster, *changes)
    assert not found.refused
    return cluster.apply([batch.write for batch in found.batches])


def test_followers_leave_and_join_and_the_elr_follows() -> None:
    cluster = cluster_of()
    epochs = {broker.id: broker.epoch for broker in cluster.image.brokers.values()}
    assert apply(cluster, change(cluster, (1, 2)))
    found = cluster.partition("t")
    assert (found.isr, found.elr) == ((1, 2), ())
    assert apply(cluster, change(cluster, (1,)))
    found = cluster.partition("t")
    assert (found.isr, found.elr, found.elr_epochs) == ((1,), (2,), (epochs[2],))
    assert (found.leader, found.leader_epoch) == (1, 0)
    assert apply(cluster, change(cluster, (1, 3), 3))
    found = cluster.partition("t")
    assert (found.isr, found.isr_epochs, found.elr) == ((1, 3), (epochs[1], epochs[3]), ())


def test_a_member_keeps_the_epoch_in_which_it_joined() -> None:
    """A later change of the record must not make a restarted member current."""
    cluster = cluster_of()
    assert apply(cluster, change(cluster, (1, 2)))
    old = cluster.image.brokers[2].epoch
    cluster.restart(2)
    assert apply(cluster, change(cluster, (1, 2, 3), 3))
    assert cluster.partition("t").isr_epochs[1] == old
    cluster.apply(elect_leaders(cluster.image, RULES))
    assert cluster.partition("t").isr == (1, 3)


def test_a_restarted_member_that_leaves_is_not_eligible() -> None:
    cluster = cluster_of()
    assert apply(cluster, change(cluster, (1, 2)))
    cluster.restart(2)
    assert apply(cluster, change(cluster, (1,)))
    assert cluster.partition("t").elr == ()


@pytest.mark.parametrize("event", ["leader", "follower", "drains", "partition", "restart"])
def test_a_change_fails_if_the_store_is_ahead(event: str) -> None:
    """The leader decides on its own image, which may be stale."""
    cluster = cluster_of()
    assert apply(cluster, change(cluster, (1, 2)))
    stale = decided(cluster, change(cluster, (1, 2, 3), 3)).batches
    if event == "leader":
        cluster.restart(1)
    elif event == "follower":
        cluster.restart(3)
    elif event == "drains":
        cluster.drain(3)
    elif event == "restart":
        cluster.stop(3)
    else:
        assert apply(cluster, change(cluster, (1,)))
    before = cluster.partition("t")
    assert not cluster.apply([batch.write for batch in stale])
    assert cluster.partition("t") == before


def test_the_image_rules_out_what_is_stale_already() -> None:
    cluster = cluster_of()
    assert apply(cluster, change(cluster, (1, 2)))
    good = change(cluster, (1, 2, 3), 3)
    wrong = [
        structs.replace(good, topic_id=bytes(16)),
        structs.replace(good, partition=1),
        structs.replace(good, leader_epoch=1),
        structs.replace(good, partition_epoch=good.partition_epoch - 1),
        structs.replace(good, isr=(2, 3)),
        structs.replace(good, isr=(1, 2, 4), joining={4: 4}),
        structs.replace(good, joining={}),
        structs.replace(good, joining={3: good.joining[3] + 1}),
    ]
    found = decided(cluster, *wrong, good)
    assert found.refused == wrong
    assert [batch.changes for batch in found.batches] == [(good,)]
    cluster.drain(3)
    assert decided(cluster, good).refused == [good]
    other = isr_writes(cluster.image, RULES, Leader(2, cluster.image.brokers[2].epoch), [good])
    assert other.refused == [good]


def test_a_leader_that_has_registered_again_must_first_be_confirmed() -> None:
    cluster = cluster_of()
    cluster.restart(1, clean_stop=cluster.image.brokers[1].epoch)
    proposed = change(cluster, (1, 2))
    assert decided(cluster, proposed).refused == [proposed]
    cluster.apply(elect_leaders(cluster.image, RULES))
    assert apply(cluster, change(cluster, (1, 2)))


def test_a_transaction_has_at_most_a_hundred_changes_and_fewer_with_many_followers() -> None:
    cluster = cluster_of(250)
    changes = [change(cluster, (1,), number=number) for number in range(250)]
    batches = decided(cluster, *changes).batches
    assert [len(batch.changes) for batch in batches] == [100, 100, 50]
    assert cluster.apply([batch.write for batch in batches])
    assert {cluster.partition("t", number).elr for number in range(250)} == {(2, 3)}
    wide = cluster_of(100, tuple(range(1, 41)))
    for number in range(100):
        assert apply(wide, change(wide, (1,), number=number))
    joins = [change(wide, (1, 2 + n % 39), 2 + n % 39, number=n) for n in range(100)]
    batches = decided(wide, *joins).batches
    assert sum(len(batch.changes) for batch in batches) == 100
    assert all(len(batch.write.compare) <= MAX_OPERATIONS for batch in batches)
    assert wide.apply([batch.write for batch in batches])


def test_the_changes_of_a_failed_transaction_are_halved() -> None:
    cluster = cluster_of(5)
    changes = [change(cluster, (1, 2), number=number) for number in range(5)]
    assert halves(changes) == [changes[:2], changes[2:]]
    assert halves(changes[:1]) == []
    assert halves([]) == []


def test_a_proposal_of_the_present_isr_leaves_the_record_as_it_is() -> None:
    cluster = cluster_of()
    before = cluster.partition("t")
    assert apply(cluster, change(cluster, (1, 2, 3)))
    after = cluster.partition("t")
    assert structs.replace(after, partition_epoch=before.partition_epoch) == before
    assert records.PartitionRecord((1,), (1,), 1, 0).elr == ()
