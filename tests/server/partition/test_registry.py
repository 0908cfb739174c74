"""The partitions of this broker, and the reasons why some are unavailable."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from tests.server.partition.partitions import NAME, partition


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
