"""The read models of partitions."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.registry import Partitions
from oncelog_server.partition.views import PartitionViews, partition_view
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import ReplicaView
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition, refusal, send
from tests.server.storage.memory_files import MemoryFiles


def test_a_view_shows_the_state_of_one_moment_and_does_not_change() -> None:
    found = partition()
    found.append(batch(), now_ms=NOW_MS)
    before = partition_view(found)
    found.append(
        batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        now_ms=NOW_MS + 5,
    )
    found.traffic.bytes_out += 9
    assert (before.log_end_offset, before.traffic.messages_in, before.producer_ids) == (1, 1, 0)
    after = partition_view(found)
    assert (after.log_end_offset, after.high_watermark, after.last_stable_offset) == (2, 2, 1)
    assert (after.traffic.bytes_out, after.traffic.messages_in) == (9, 2)
    assert after.producer_ids == 1
    assert after.size_bytes > before.size_bytes
    (transaction,) = after.open_transactions
    assert (transaction.producer_id, transaction.updated_ms) == (7, NOW_MS + 5)
    assert (after.partition, after.segments) == (found.topic_partition, 1)


def test_a_leader_that_misses_replicas_is_under_replicated_and_a_follower_is_not() -> None:
    found = partition()
    found.become_leader(0, 1, (0, 1), (0, 1))
    assert not partition_view(found).is_under_replicated
    found.become_leader(0, 2, (0,), (0, 1))
    assert partition_view(found).is_under_replicated
    found.become_follower(1, 3)
    assert not partition_view(found).is_under_replicated


def test_a_replica_that_is_being_added_does_not_make_a_partition_under_replicated() -> None:
    """KIP-455, as Kafka's Partition.isUnderReplicated."""
    found = partition()
    found.become_leader(0, 1, (0, 1), (0, 2, 1))
    found.replicas.reassign((2,), (1,))
    view = partition_view(found)
    assert (view.is_under_replicated, view.is_reassigning) == (False, True)
    found.become_leader(0, 1, (0,), (0, 2, 1))
    assert partition_view(found).is_under_replicated
    found.become_leader(0, 2, (0, 2), (0, 2))
    found.replicas.reassign((), ())
    view = partition_view(found)
    assert (view.is_under_replicated, view.is_reassigning) == (False, False)
    found.replicas.reassign((2,), ())
    found.become_follower(1, 3)
    assert not partition_view(found).is_reassigning


def test_a_partition_that_refuses_writes_is_shown_unless_it_is_offline() -> None:
    """A partition refuses writes if the disk refuses its leader-epoch-checkpoint. An offline
    partition counts only as offline, not as refusing writes."""
    files = MemoryFiles()
    found = partition(files)
    assert not partition_view(found).refuses_writes
    files.fail_append(match="leader-epoch-checkpoint")
    found.write_leader_epochs()
    assert partition_view(found).refuses_writes
    found.fail("disk")
    assert not partition_view(found).refuses_writes


def test_views_show_each_partition_at_the_moment_of_its_step() -> None:
    """Other requests run between two steps, so a partition may grow or fail in between."""
    partitions = Partitions()
    first, second, third = (partition(name=TopicPartition("t", number)) for number in range(3))
    for found in (first, second, third):
        partitions.add(found)
    views = PartitionViews(partitions)
    assert (views.count(), views.offline_count()) == (3, 0)
    shown, replicas = views.all(), views.replicas(None, int)
    assert next(shown).partition == next(replicas).partition == first.topic_partition
    second.append(batch(), now_ms=NOW_MS)
    third.fail("disk")
    assert [view.log_end_offset for view in shown] == [1, 0]
    assert list(replicas) == [ReplicaView(second.topic_partition, second.size_bytes, {})]
    assert second.size_bytes > 0
    assert (views.count(), views.offline_count()) == (3, 1)
    assert views.offline_reason(third.topic_partition) == "disk"
    assert views.offline_reason(second.topic_partition) is None


def test_replicas_are_shown_in_the_order_of_the_given_names_without_unknown_names() -> None:
    partitions = Partitions()
    names = [TopicPartition("t", 1), TopicPartition("t", 0)]
    for name in names:
        partitions.add(partition(name=name))
    views = PartitionViews(partitions)
    shown = views.replicas([TopicPartition("u", 0), *reversed(names)], int)
    assert [replica.partition for replica in shown] == list(reversed(names))


def test_producers_of_an_available_partition_are_shown_and_others_raise() -> None:
    partitions = Partitions()
    replica = partition(name=TopicPartition("t", 0))
    partitions.add(replica)
    partitions.add_offline(TopicPartition("t", 1), "disk")
    send(replica, 8, 0)
    send(replica, 7, 0)
    views = PartitionViews(partitions)
    assert [producer.producer_id for producer in views.producers("t", 0)] == [7, 8]
    assert refusal(lambda: list(views.producers("t", 1))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal(lambda: list(views.producers("t", 2))) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
