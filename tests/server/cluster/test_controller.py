"""Only the controller elects leaders. It elects a replica with all committed records, with a new
leader epoch."""

from __future__ import annotations

import pytest
from msgspec import structs

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.controller import (
    elect_leaders,
    elect_preferred_leaders,
    remove_orphans,
)
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.producer_ids import LAST_PRODUCER_ID, ProducerIdBlock, next_block
from oncelog_server.cluster.store import Delete, Entry, Put, Write
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

RULES = ElectionRules()


def leaders(cluster: Cluster, topic: str) -> list[tuple[int, int]]:
    return [
        (partition.leader, partition.leader_epoch)
        for partition in cluster.image.topics[topic].partitions
    ]


def test_no_leader_changes_while_all_brokers_live() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.create("t", 3, 2)
    assert elect_leaders(cluster.image, RULES) == []


def test_a_broker_that_restarted_leads_again_with_the_next_epoch() -> None:
    cluster = Cluster()
    cluster.create("t", 250)
    cluster.restart(1)
    writes = elect_leaders(cluster.image, RULES)
    assert [len(write.operations) for write in writes] == [100, 100, 50]
    assert cluster.apply(writes)
    assert leaders(cluster, "t") == [(1, 1)] * 250
    assert elect_leaders(cluster.image, RULES) == []


# A state of a partition with the replicas 1, 2 and 3: leader, ISR, ELR, last known ELR.
State = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
WHOLE: State = (1, (1, 2, 3), (), ())


def cluster_with(state: State, **own: str) -> Cluster:
    """Return a cluster of four brokers with a partition `t-0` in this state."""
    cluster = Cluster((1, 2, 3, 4))
    new = NewTopic("t", assignments=((0, (1, 2, 3)),), settings=own)
    cluster.apply(create_topic(cluster.image, Settings(), new, cluster.new_id())[1])
    leader, isr, elr, last_known = state
    epochs = {broker.id: broker.epoch for broker in cluster.image.brokers.values()}
    record = records.PartitionRecord(
        (1, 2, 3),
        isr,
        leader,
        7,
        elr=elr,
        last_known_elr=last_known,
        isr_epochs=tuple(epochs[broker] for broker in isr),
        elr_epochs=tuple(epochs[broker] for broker in elr),
    )
    cluster.put_partition("t", record)
    return cluster


def elected(cluster: Cluster) -> tuple[State, int]:
    """Let the controller decide. Return the new state, and the increase of the leader epoch."""
    assert cluster.apply(elect_leaders(cluster.image, RULES))
    assert elect_leaders(cluster.image, RULES) == [], "a decision is made once"
    found = cluster.partition("t")
    epochs = {broker.id: broker.epoch for broker in cluster.image.brokers.values()}
    for broker, epoch in zip(found.isr, found.isr_epochs, strict=True):
        assert epochs[broker] == epoch
    return (found.leader, found.isr, found.elr, found.last_known_elr), found.leader_epoch - 7


@pytest.mark.parametrize(
    ("state", "dead", "min_isr", "expected", "epochs"),
    [
        pytest.param(WHOLE, (4,), 1, WHOLE, 0, id="no replica"),
        pytest.param(WHOLE, (3,), 1, (1, (1, 2), (), ()), 0, id="a follower"),
        pytest.param(WHOLE, (1,), 1, (2, (2, 3), (), ()), 1, id="the leader"),
        pytest.param(WHOLE, (1, 2), 2, (3, (3,), (1, 2), ()), 1, id="below the min ISR"),
        pytest.param(WHOLE, (1, 2, 3), 1, (-1, (), (1, 2, 3), (1,)), 1, id="all"),
        pytest.param(
            (3, (3,), (2,), ()), (3,), 2, (2, (2,), (3,), ()), 1, id="the last, with an ELR"
        ),
        pytest.param(
            (3, (3,), (2,), ()), (2, 3), 2, (-1, (), (2, 3), (3,)), 1, id="the last, and the ELR"
        ),
        pytest.param(
            (1, (1, 2), (), ()), (1,), 1, (2, (2,), (), ()), 1, id="outside stays outside"
        ),
        pytest.param((-1, (), (2, 3), (1,)), (), 2, (2, (2,), (3,), ()), 1, id="from the ELR"),
        pytest.param((-1, (), (2, 3), (1,)), (), 1, (2, (2,), (), ()), 1, id="which it ends"),
        pytest.param((1, (1,), (), ()), (1,), 1, (-1, (), (1,), (1,)), 1, id="the only in sync"),
    ],
)
def test_a_broker_with_an_ended_lease_leaves_every_isr(
    state: State, dead: tuple[int, ...], min_isr: int, expected: State, epochs: int
) -> None:
    """Defect C of the cluster brief: the leader moved, and the broker stayed in every ISR. Kafka's
    controller removes a fenced broker at once (KIP-966 keeps it in the ELR below the min ISR)."""
    cluster = cluster_with(state, **{"min.insync.replicas": str(min_isr)})
    cluster.stop(*dead)
    assert elected(cluster) == (expected, epochs)


@pytest.mark.parametrize(
    ("kept", "expected", "epochs"),
    [
        ("clean stop", (2, (1, 2, 3), (), ()), 0),
        ("same boot", (2, (1, 2, 3), (), ()), 0),
        ("flush on ack", (2, (1, 2, 3), (), ()), 0),
        ("nothing", (2, (2, 3), (), ()), 0),
        ("another directory", (2, (2, 3), (), ()), 0),
    ],
)
def test_a_restarted_follower_stays_in_sync_if_it_has_kept_its_records(
    kept: str, expected: State, epochs: int
) -> None:
    """Defect C' of the cluster brief: a restarted broker counted as in sync, whatever its disk had
    lost (KIP-903, KIP-966)."""
    cluster = cluster_with((2, (1, 2, 3), (), ()))
    cluster.stop(1)
    cluster.register(1, boot="b", flush_on_ack=kept == "flush on ack")
    before = cluster.image.brokers[1].epoch
    record = cluster.partition("t")
    isr_epochs = (before, *record.isr_epochs[1:])
    cluster.put_partition(
        "t", records.PartitionRecord((1, 2, 3), (1, 2, 3), 2, 7, isr_epochs=isr_epochs)
    )
    cluster.stop(1)
    cluster.register(
        1,
        directory="new" if kept == "another directory" else "",
        boot="b" if kept in ("same boot", "another directory") else "after a power loss",
        clean_stop=before if kept == "clean stop" else 0,
    )
    assert elected(cluster) == (expected, epochs)


def test_a_restarted_leader_leads_again_only_with_its_records() -> None:
    for clean, expected in ((True, (1, (1, 2, 3), (), ())), (False, (2, (2, 3), (), ()))):
        cluster = cluster_with(WHOLE)
        epoch = cluster.image.brokers[1].epoch
        cluster.restart(1, clean_stop=epoch if clean else 0)
        assert elected(cluster) == (expected, 1)


def test_b10_an_empty_disk_never_costs_the_last_copy() -> None:
    """All brokers stop. The first to come back has an empty disk, so the partition waits for a
    broker that has its records."""
    cluster = cluster_with(WHOLE)
    epochs = {broker: cluster.image.brokers[broker].epoch for broker in (1, 2, 3)}
    cluster.stop(1, 2, 3)
    assert elected(cluster) == ((-1, (), (1, 2, 3), (1,)), 1)
    cluster.register(1, directory="new")
    assert elected(cluster) == ((-1, (), (2, 3), (1,)), 1)
    cluster.register(3, clean_stop=epochs[3])
    assert elected(cluster) == ((3, (3,), (), ()), 2)


def test_the_only_replica_leads_whatever_it_has_lost() -> None:
    """Another copy does not exist. Kafka elects its last known leader in this case too."""
    cluster = Cluster((1, 2))
    cluster.create("t")
    (leader,) = cluster.partition("t").isr
    cluster.stop(leader)
    cluster.apply(elect_leaders(cluster.image, RULES))
    found = cluster.partition("t")
    assert (found.leader, found.isr, found.elr) == (NO_LEADER, (), (leader,))
    cluster.register(leader, directory="new")
    cluster.apply(elect_leaders(cluster.image, RULES))
    found = cluster.partition("t")
    assert (found.leader, found.isr, found.elr, found.leader_epoch) == (leader, (leader,), (), 2)


def test_a_draining_broker_leads_nothing_and_leaves_every_isr() -> None:
    """KIP-841: a broker in controlled shutdown is in no ISR."""
    cluster = cluster_with(WHOLE)
    cluster.drain(1)
    assert elected(cluster) == ((2, (2, 3), (), ()), 1)
    cluster.drain(3)
    assert elected(cluster) == ((2, (2,), (), ()), 1)


def test_a_draining_leader_serves_until_it_stops_if_no_other_replica_can_lead() -> None:
    cluster = cluster_with((2, (2,), (), ()))
    cluster.drain(2)
    assert elect_leaders(cluster.image, RULES) == []
    cluster.stop(2)
    assert elected(cluster) == ((-1, (), (2,), (2,)), 1)
    together = cluster_with(WHOLE)
    for broker in (1, 2, 3):
        together.drain(broker)
    assert elect_leaders(together.image, RULES) == []
    together.stop(1)
    assert elected(together) == ((-1, (), (1, 2, 3), (1,)), 1), "2 and 3 stop as well"


def test_a_draining_leader_goes_as_soon_as_another_replica_is_in_sync() -> None:
    cluster = cluster_with((2, (2,), (), ()), **{"unclean.leader.election.enable": "true"})
    cluster.drain(2)
    assert elect_leaders(cluster.image, RULES) == [], "an election without a loss comes first"
    epochs = {broker.id: broker.epoch for broker in cluster.image.brokers.values()}
    joined = records.PartitionRecord((1, 2, 3), (2, 3), 2, 7, isr_epochs=(epochs[2], epochs[3]))
    cluster.put_partition("t", joined)
    assert elected(cluster) == ((3, (3,), (), ()), 1)


def test_a_member_of_the_elr_leads_instead_of_a_draining_leader() -> None:
    cluster = cluster_with((2, (2,), (3,), ()), **{"min.insync.replicas": "2"})
    cluster.drain(2)
    assert elected(cluster) == ((3, (3,), (2,), ()), 1)


def test_a_failed_replica_leads_nothing_and_is_eligible_only_as_the_last() -> None:
    cluster = cluster_with(WHOLE, **{"min.insync.replicas": "3"})
    topic = cluster.image.topics["t"].id_text
    failed = records.encode(records.FailedRecord("the disk is full"))
    cluster.apply([Write((), (Put(records.failed_key(1, topic, 0), failed),))])
    assert elected(cluster) == ((2, (2, 3), (), ()), 1)
    cluster.stop(2)
    assert elected(cluster) == ((3, (3,), (2,), ()), 2)
    cluster.stop(3)
    assert elected(cluster) == ((-1, (), (2, 3), (3,)), 3)
    alone = cluster_with((1, (1,), (), ()))
    topic = alone.image.topics["t"].id_text
    alone.apply([Write((), (Put(records.failed_key(1, topic, 0), failed),))])
    assert elected(alone) == ((-1, (), (1,), (1,)), 1)
    alone.apply([Write((), (Delete(records.failed_key(1, topic, 0)),))])
    assert elected(alone) == ((1, (1,), (), ()), 2)


@pytest.mark.parametrize(
    ("state", "dead", "expected"),
    [
        # The replicas of the ELR come first, and then the last known leader.
        ((-1, (), (2,), (3,)), (), (2, (2,), (), ())),
        ((-1, (), (2,), (3,)), (2,), (1, (1,), (), ())),
        ((-1, (), (), (3,)), (), (3, (3,), (), ())),
        ((-1, (), (), (3,)), (3,), (1, (1,), (), ())),
        ((-1, (), (), (3,)), (1, 2, 3), (-1, (), (), (3,))),
    ],
)
def test_an_unclean_election_takes_any_replica_if_the_topic_allows_it(
    state: State, dead: tuple[int, ...], expected: State
) -> None:
    cluster = cluster_with(state, **{"unclean.leader.election.enable": "true"})
    cluster.stop(*dead)
    assert elected(cluster) == (expected, expected[0] != -1)
    strict = cluster_with(state)
    strict.stop(*dead)
    clean = expected if expected[0] in state[2] else state
    assert elected(strict) == (clean, clean is expected and expected[0] != -1)


def test_the_broker_has_the_default_of_the_unclean_election_and_of_the_min_isr() -> None:
    cluster = cluster_with((-1, (), (), ()))
    assert elect_leaders(cluster.image, ElectionRules()) == []
    assert elect_leaders(cluster.image, ElectionRules(unclean=True))
    cluster = cluster_with(WHOLE)
    cluster.stop(3)
    cluster.apply(elect_leaders(cluster.image, ElectionRules(min_insync_replicas=3)))
    assert cluster.partition("t").elr == (3,)


def test_a_deposed_controller_changes_nothing() -> None:
    cluster = cluster_with(WHOLE)
    cluster.stop(1)
    stale = elect_leaders(cluster.image, RULES)
    record = records.encode(records.ControllerRecord(2))
    cluster.apply([Write((), (Delete(records.CONTROLLER),))])
    cluster.apply([Write((), (Put(records.CONTROLLER, record),))])
    assert not cluster.apply(stale)
    assert cluster.partition("t").leader == 1


def test_a_new_leader_with_an_ended_lease_is_not_elected() -> None:
    cluster = cluster_with(WHOLE)
    cluster.stop(1)
    stale = elect_leaders(cluster.image, RULES)
    cluster.restart(2)
    assert not cluster.apply(stale)


def imbalance(cluster: Cluster) -> int:
    return sum(
        not partition.has_preferred_leader for partition in cluster.image.topics["t"].partitions
    )


def test_preferred_leaders_are_elected_if_they_are_in_sync() -> None:
    cluster = cluster_with((2, (1, 2), (), ()))
    assert imbalance(cluster) == 1
    assert cluster.apply(elect_preferred_leaders(cluster.image))
    found = cluster.partition("t")
    assert (found.leader, found.leader_epoch, found.isr) == (1, 8, (1, 2))
    assert elect_preferred_leaders(cluster.image) == []
    assert imbalance(cluster) == 0
    outside = cluster_with((2, (2, 3), (), ()))
    assert elect_preferred_leaders(outside.image) == []
    draining = cluster_with((2, (1, 2), (), ()))
    draining.drain(1)
    assert elect_preferred_leaders(draining.image) == []
    restarted = cluster_with((2, (1, 2), (), ()))
    restarted.restart(1)
    assert elect_preferred_leaders(restarted.image) == []


def test_so_many_preferred_leaders_are_elected_at_once() -> None:
    cluster = Cluster((1, 2))
    cluster.create("t", 250, 2)
    cluster.stop(1)
    cluster.apply(elect_leaders(cluster.image, RULES))
    cluster.register(1)
    for number in range(250):
        found = cluster.partition("t", number)
        epochs = tuple(cluster.image.brokers[broker].epoch for broker in (1, 2))
        joined = records.PartitionRecord(
            found.replicas, (1, 2), found.leader, found.leader_epoch, isr_epochs=epochs
        )
        cluster.put_partition("t", joined, number)
    writes = elect_preferred_leaders(cluster.image, at_most=120)
    assert [len(write.operations) for write in writes] == [100, 20]
    assert cluster.apply(writes)
    assert imbalance(cluster) == 5


def test_orphans_are_removed_but_not_those_of_a_topic_that_is_being_created() -> None:
    """Defect B of the cluster brief: each broker removed, without a condition, the partitions of a
    topic that another broker was creating."""
    cluster = Cluster((1, 2))
    new = NewTopic("t", 300, 1)
    writes = create_topic(cluster.image, Settings(), new, cluster.new_id())[1]
    cluster.apply(writes[:1])
    assert len(cluster.image.orphans()) == len(writes[0].operations) - 1
    assert remove_orphans(cluster.image) == []
    creating = records.creating_key(uuid_to_string(cluster.image.orphans()[0].topic_id))
    cluster.apply([Write((), (Delete(creating),))])
    removal = remove_orphans(cluster.image)
    assert cluster.apply(removal)
    assert not cluster.image.orphans()
    assert not cluster.apply(writes[1:]), "the creator must notice that its key is gone"
    assert "t" not in cluster.image.topics


def test_a_creation_that_goes_ahead_of_the_removal_of_its_orphans_stays_whole() -> None:
    cluster = Cluster((1, 2))
    writes = create_topic(cluster.image, Settings(), NewTopic("t", 300, 1), cluster.new_id())[1]
    cluster.apply(writes[:1])
    stale = structs.replace(cluster.image, creating={})
    removal = remove_orphans(stale)
    assert removal
    assert not cluster.apply(removal)
    assert cluster.apply(writes[1:])
    assert cluster.image.topics["t"].missing == ()
    assert not cluster.image.creating


def test_blocks_of_producer_ids_follow_each_other() -> None:
    block, write = next_block(None)
    assert block == ProducerIdBlock(0, 1000)
    (put,) = write.operations
    assert isinstance(put, Put)
    entry = Entry(put.key, put.value, 1, 1)
    assert next_block(entry)[0] == ProducerIdBlock(1000, 1000)


def test_a_block_beyond_the_last_producer_id_is_an_error() -> None:
    """The last block may end at LAST_PRODUCER_ID. A block beyond it is an OverflowError."""
    record = records.encode(records.ProducerIdsRecord(LAST_PRODUCER_ID - 1000))
    assert next_block(Entry("producer_ids", record, 1, 1))[0].end == LAST_PRODUCER_ID
    record = records.encode(records.ProducerIdsRecord(LAST_PRODUCER_ID - 999))
    with pytest.raises(OverflowError):
        next_block(Entry("producer_ids", record, 1, 1))
