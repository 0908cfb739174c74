"""The partitions of this broker, and the reasons why some are unavailable."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.registry import NO_PARTITIONS, Partitions, are_of
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import NAME, partition, refusal
from tests.server.storage.memory_files import MemoryFiles

OLD, NEW = bytes([1] * 16), bytes([2] * 16)


def code_of(partitions: Partitions, name: TopicPartition) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        partitions.require(*name)
    return refused.value.code


def test_a_partition_is_found_until_it_is_removed() -> None:
    partitions = Partitions()
    replica = partition()
    partitions.add(replica)
    assert partitions.require(*NAME) is partitions.get(NAME) is replica
    assert list(partitions) == [replica]
    assert len(partitions) == 1
    for unknown in (TopicPartition("topic", 1), TopicPartition("other", 0)):
        assert code_of(partitions, unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.remove(NAME) is replica
    assert partitions.remove(NAME) is None
    assert len(partitions) == 0
    assert code_of(partitions, NAME) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_partitions_of_a_topic_are_found_together() -> None:
    partitions = Partitions()
    replica = partition()
    partitions.add(replica)
    assert partitions.of_topic(NAME.topic) == {NAME.partition: replica}
    assert not partitions.of_topic("other")
    unknown = partitions.missing("other", 0)
    assert unknown.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions.remove(NAME)
    partitions.add_offline(NAME, "corrupt")
    assert not partitions.of_topic(NAME.topic)
    offline = partitions.missing(*NAME)
    assert (offline.code, offline.message) == (ErrorCode.KAFKA_STORAGE_ERROR, "corrupt")


def test_S3d_a_partition_that_could_not_be_opened_has_a_storage_error_and_is_not_unknown() -> None:
    partitions = Partitions()
    partitions.add_offline(NAME, "corrupt")
    assert code_of(partitions, NAME) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions.offline_reason(NAME) == "corrupt"
    assert partitions.offline() == {NAME: "corrupt"}
    partitions.remove(NAME)
    assert partitions.offline() == {}


def test_a_partition_that_fails_while_in_service_is_offline_too() -> None:
    partitions = Partitions()
    replica = partition()
    partitions.add(replica)
    assert partitions.offline_reason(NAME) is None
    replica.fail("fsync")
    assert partitions.offline_reason(NAME) == "fsync"
    assert partitions.offline() == {NAME: "fsync"}


def test_6_a_partition_of_other_brokers_is_not_unknown() -> None:
    """The client then looks for the leader, instead of a topic that may not exist."""
    partitions = Partitions(lambda topic, index: (topic, index) == NAME)
    assert code_of(partitions, NAME) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(partitions, TopicPartition("topic", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions.add_offline(NAME, "the disk is broken")
    assert code_of(partitions, NAME) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("match", [".log", ".index"])
def test_d1_a_partition_refuses_appends_from_the_first_refusal_to_a_retry_that_succeeds(
    match: str,
) -> None:
    """The disk refuses a write of the log itself, or of the next segment that an append needs."""
    files = MemoryFiles()
    partitions = Partitions()
    replica = partition(files, segment_bytes=500, index_interval_bytes=1)
    partitions.add(replica)
    replica.append(batch(), now_ms=NOW_MS)
    assert partitions.refusing() == {}
    files.fail_append(match=match, reason="No space left on device")

    def fill() -> None:
        for _ in range(100):
            replica.append(batch(), now_ms=NOW_MS)

    assert refusal(fill) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left on device" in partitions.refusing()[NAME]
    replica.try_again(NOW_MS)
    assert partitions.refusing() == {}


def test_a_refused_side_file_is_no_refusal_of_appends() -> None:
    files = MemoryFiles()
    partitions = Partitions()
    replica = partition(files)
    partitions.add(replica)
    replica.append(batch(), now_ms=NOW_MS)
    files.fail_append(match="leader-epoch", reason="No space left on device")
    replica.become_leader(0, 1, (0,), (0,))
    replica.append(batch(), now_ms=NOW_MS)
    assert partitions.refusing() == {}


def test_requests_find_no_partition_of_a_deleted_topic_although_its_log_is_open() -> None:
    partitions = Partitions()
    deleted = partition(topic_id=OLD)
    partitions.add(deleted)
    partitions.delete_topic(NAME.topic, NEW)
    assert partitions.get(NAME) is deleted
    assert partitions.delete_topic(NAME.topic, OLD) == [deleted]
    assert not deleted.is_leader
    assert refusal(lambda: deleted.append(batch(), NOW_MS)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions.get(NAME) is None
    assert not partitions.of_topic(NAME.topic)
    assert code_of(partitions, NAME) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (list(partitions), len(partitions)) == ([deleted], 1)
    partitions.suspend()
    partitions.resume(lambda _: True)
    assert not deleted.is_leader


def test_a_removal_takes_the_partition_of_its_topic_only() -> None:
    partitions = Partitions()
    deleted, created = partition(topic_id=OLD), partition(topic_id=NEW)
    partitions.add(deleted)
    partitions.delete_topic(NAME.topic, OLD)
    partitions.add(created)
    assert partitions.get(NAME) is created
    assert partitions.remove(NAME, bytes([9] * 16)) is None
    assert partitions.remove(NAME, OLD) is deleted
    assert partitions.remove(NAME, OLD) is None
    assert list(partitions) == [created]
    assert partitions.remove(NAME, NEW) is created
    assert list(partitions) == []


def test_the_partitions_of_a_topic_have_its_id() -> None:
    found = {0: partition(topic_id=OLD)}
    assert are_of(OLD, found)
    assert not are_of(NEW, found)
    assert are_of(NEW, NO_PARTITIONS)
