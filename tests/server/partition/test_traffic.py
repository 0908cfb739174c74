"""The traffic of a topic counts what clients wrote and read here, since the start of the broker."""

from __future__ import annotations

import pytest

from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.partition.views import PartitionViews, partition_view
from oncelog_server.storage.files import StorageError
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import Traffic
from tests.server.log.driver import NOW_MS
from tests.server.partition.partitions import partition, send
from tests.server.storage.memory_files import MemoryFiles


def bytes_of(leader: Partition, first: int) -> bytes:
    """Return the batches of the leader's log from the offset `first` on."""
    found = leader._log.read(first, 1 << 20, limit=leader.log_end_offset).records
    assert found is not None
    return found.read()


def led(records: int) -> Partition:
    """Return another broker's log with this number of batches."""
    found = partition()
    for sequence in range(records):
        send(found, 7, sequence)
    return found


def test_replicated_records_do_not_count() -> None:
    """Kafka's ReplicaManager.appendToLocalLog marks MessagesInPerSec and BytesInPerSec at the
    leader only. The counters of a cluster are then the sum over its brokers."""
    leader, found = led(4), partition()
    send(found, 7, 0)
    written = partition_view(found).traffic
    assert (written.messages_in, written.bytes_in) == (1, found.size_bytes)
    found.become_follower(1, 1)
    FollowerLog(found).append(bytes_of(leader, 1), NOW_MS)
    assert found.log_end_offset == 4
    assert partition_view(found).traffic == written
    # A new leader's log ends earlier.
    found._log.truncate_to(2, NOW_MS)
    assert partition_view(found).traffic == written
    found.become_leader(0, 2, (0,), (0,))
    size = found.size_bytes
    send(found, 7, 2)
    later = partition_view(found).traffic
    assert later == Traffic(2, written.bytes_in + found.size_bytes - size, 0)
    # A follower with a log that has nothing in common with the leader's.
    found.become_follower(1, 3)
    found._log.restart_at(0, NOW_MS)
    FollowerLog(found).append(bytes_of(leader, 0), NOW_MS)
    assert partition_view(found).traffic == later


def test_batches_before_a_refused_batch_do_not_count_either() -> None:
    files = MemoryFiles()
    leader, found = led(2), partition(files)
    found.become_follower(1, 1)
    files.fail_append(2, match=".log")
    with pytest.raises(StorageError):
        FollowerLog(found).append(bytes_of(leader, 0), NOW_MS)
    assert found.log_end_offset == 1
    assert partition_view(found).traffic == Traffic()


def test_the_traffic_of_a_removed_partition_stays_until_the_last_one_of_its_topic_leaves() -> None:
    """Kafka's BrokerTopicStats are by topic. ReplicaManager.maybeRemoveTopicMetrics drops them
    when no partition of the topic is left."""
    partitions = Partitions()
    views = PartitionViews(partitions)
    found = [partition(name=TopicPartition("t", index)) for index in range(3)]
    for replica in found:
        send(replica, 7, 0, count=5)
        replica.traffic.bytes_out += 9
        partitions.add(replica)
    assert views.removed_traffic() == {}
    size = found[0].size_bytes
    partitions.remove(TopicPartition("t", 0))
    assert views.removed_traffic() == {"t": Traffic(5, size, 9)}
    partitions.remove(TopicPartition("t", 2))
    assert views.removed_traffic() == {"t": Traffic(10, 2 * size, 18)}
    partitions.remove(TopicPartition("t", 2))
    assert views.removed_traffic() == {"t": Traffic(10, 2 * size, 18)}
    partitions.remove(TopicPartition("t", 1))
    assert views.removed_traffic() == {}
