"""Only the controller elects leaders. It elects a replica in sync, with a new leader epoch."""

from __future__ import annotations

import pytest

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.producer_ids import LAST_PRODUCER_ID, ProducerIdBlock, next_block
from oncelog_server.cluster.store import Delete, Entry, Put, Write
from oncelog_server.cluster.topic_alterations import alter_topic
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster


def leaders(cluster: Cluster, topic: str) -> list[tuple[int, int]]:
    return [
        (partition.leader, partition.leader_epoch)
        for partition in cluster.image.topics[topic].partitions
    ]


def test_no_leader_changes_while_all_brokers_live() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.create("t", 3, 2)
    assert elect_leaders(cluster.image, {1, 2, 3}, ()) == []


def test_a_broker_that_restarted_leads_again_with_the_next_epoch() -> None:
    cluster = Cluster()
    cluster.create("t", 250)
    writes = elect_leaders(cluster.image, {1}, {1})
    assert [len(write.operations) for write in writes] == [100, 100, 50]
    assert cluster.apply(writes)
    assert leaders(cluster, "t") == [(1, 1)] * 250


def test_a_replica_in_sync_takes_over() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.create("t", 3, 2)
    assert leaders(cluster, "t") == [(1, 0), (2, 0), (3, 0)]
    assert cluster.apply(elect_leaders(cluster.image, {2, 3}, ()))
    assert leaders(cluster, "t") == [(2, 1), (2, 0), (3, 0)]


def test_without_a_replica_in_sync_only_an_unclean_election_finds_a_leader() -> None:
    for settings, expected in (({}, NO_LEADER), ({"unclean.leader.election.enable": "true"}, 2)):
        cluster = Cluster((1, 2))
        topic_id = cluster.create("t", 1, 2)
        cluster.apply(alter_topic(cluster.image, Settings(), "t", settings))
        key = records.partition_key(cluster.image.topics["t"].id_text, 0)
        alone = records.encode(records.PartitionRecord((1, 2), (1,), 1, 0))
        cluster.apply([Write((), (Put(key, alone),))])
        assert cluster.apply(elect_leaders(cluster.image, {2}, ()))
        topic = cluster.image.topic_by_id(topic_id)
        assert topic is not None
        partition = topic.partitions[0]
        assert partition.leader == expected
        assert partition.isr == ((1,) if expected == NO_LEADER else (2,))
        assert partition.leader_epoch == 1
        if expected == NO_LEADER:
            assert elect_leaders(cluster.image, {2}, ()) == []
            assert cluster.apply(elect_leaders(cluster.image, {1, 2}, ()))
            assert leaders(cluster, "t") == [(1, 2)]


def test_a_deposed_controller_changes_nothing() -> None:
    cluster = Cluster((1, 2))
    cluster.create("t", 1, 2)
    stale = elect_leaders(cluster.image, {2}, ())
    record = records.encode(records.ControllerRecord(2))
    cluster.apply([Write((), (Delete(records.CONTROLLER),))])
    cluster.apply([Write((), (Put(records.CONTROLLER, record),))])
    assert not cluster.apply(stale)
    assert leaders(cluster, "t") == [(1, 0)]


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
