"""DescribeTopicPartitions (key 75), versions 0 to 0."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, nested, string, uuid


@struct
class TopicRequest:
    """Topic request of DescribeTopicPartitionsRequest."""

    name: str = string()


@struct
class RequestCursor:
    """Request cursor of DescribeTopicPartitionsRequest."""

    topic_name: str = string()
    partition_index: int = int32()


@message(range(0, 1), flexible_since=0)
class DescribeTopicPartitionsRequest:
    """The request of DescribeTopicPartitions, versions 0 to 0."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: RequestCursor | None = nested(RequestCursor, nullable_since=0, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """Describe topic partitions response partition of DescribeTopicPartitionsResponse."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable_since=0, default=None)
    last_known_elr: list[int] | None = array(int32, nullable_since=0, default=None)
    offline_replicas: list[int] = array(int32)


@struct
class DescribeTopicPartitionsResponseTopic:
    """Describe topic partitions response topic of DescribeTopicPartitionsResponse."""

    error_code: int = int16()
    name: str | None = string(nullable_since=0)
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


@struct
class ResponseCursor:
    """Response cursor of DescribeTopicPartitionsResponse."""

    topic_name: str = string()
    partition_index: int = int32()


@message(range(0, 1), flexible_since=0)
class DescribeTopicPartitionsResponse:
    """The response of DescribeTopicPartitions, versions 0 to 0."""

    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: ResponseCursor | None = nested(ResponseCursor, nullable_since=0, default=None)
