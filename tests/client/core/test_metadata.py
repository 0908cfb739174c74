"""Metadata takes newer values from a response and keeps its own values that are newer."""

from __future__ import annotations

from oncelog_client.core.metadata import Metadata
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TP = TopicPartition("t", 0)


def answer(
    *, leader: int = 1, epoch: int = 5, topic_id: bytes = bytes(16), error: int = 0
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name="t", topic_id=topic_id, error_code=error, partitions=[partition]
            )
        ],
    )


def test_a_response_has_the_leaders_of_its_partitions() -> None:
    metadata = Metadata().merged(answer(), whole=False)
    assert metadata.leader(TP) == 1
    assert metadata.brokers[1].host == "h"
    assert metadata.leader(TopicPartition("t", 1)) is None
    assert metadata.leader(TopicPartition("u", 0)) is None
    assert metadata.partition_counts(frozenset("tu")) == {"t": 1}


def test_an_older_leader_epoch_counts_only_for_a_recreated_topic() -> None:
    metadata = Metadata().merged(answer(leader=2, epoch=6), whole=False)
    assert metadata.merged(answer(leader=1, epoch=5), whole=False).leader(TP) == 2
    recreated = answer(leader=1, epoch=0, topic_id=b"x" * 16)
    assert metadata.merged(recreated, whole=False).leader(TP) == 1


def test_a_partition_with_leader_id_minus_1_has_no_leader() -> None:
    assert Metadata().merged(answer(leader=-1), whole=False).leader(TP) is None


def test_a_topic_with_an_error_is_not_usable() -> None:
    metadata = Metadata().merged(answer(error=ErrorCode.LEADER_NOT_AVAILABLE), whole=False)
    assert not metadata.topics["t"].usable


def test_a_full_response_removes_missing_topics() -> None:
    metadata = Metadata().merged(answer(), whole=False)
    nothing = MetadataResponse(brokers=answer().brokers)
    assert "t" in metadata.merged(nothing, whole=False).topics
    assert metadata.merged(nothing, whole=True).topics == {}
