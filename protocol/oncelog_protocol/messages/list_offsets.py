"""ListOffsets (key 2), versions 1 to 11."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int8, int16, int32, int64, string


@struct
class ListOffsetsPartition:
    """List offsets partition of ListOffsetsRequest."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1)
    timestamp: int = int64()


@struct
class ListOffsetsTopic:
    """List offsets topic of ListOffsetsRequest."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(range(1, 12), flexible_since=6)
class ListOffsetsRequest:
    """The request of ListOffsets, versions 1 to 11."""

    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10)


@struct
class ListOffsetsPartitionResponse:
    """List offsets partition response of ListOffsetsResponse."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    """List offsets topic response of ListOffsetsResponse."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(range(1, 12), flexible_since=6)
class ListOffsetsResponse:
    """The response of ListOffsets, versions 1 to 11."""

    throttle_time_ms: int = int32(since=2)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
