"""DescribeTopicPartitions (key 75, version 0): describes partitions page by page."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, nested, string, uuid


@struct
class TopicRequest:
    """One topic by name."""

    name: str = string()


@struct
class RequestCursor:
    """The first partition of a page."""

    topic_name: str = string()
    partition_index: int = int32()


@api_message(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsRequest:
    """The requested topics, the first one of the page, and the maximum number of partitions
    (KIP-966)."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: RequestCursor | None = nested(RequestCursor, nullable=True, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """Leader and replicas of one partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable=True, default=None)
    last_known_elr: list[int] | None = array(int32, nullable=True, default=None)
    offline_replicas: list[int] = array(int32)


@struct
class DescribeTopicPartitionsResponseTopic:
    """Partitions of one topic."""

    error_code: int = int16()
    name: str | None = string(nullable=True)
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


@struct
class ResponseCursor:
    """The first partition of the next page; null at the end."""

    topic_name: str = string()
    partition_index: int = int32()


@api_message(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsResponse:
    """One page."""

    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: ResponseCursor | None = nested(ResponseCursor, nullable=True, default=None)
