"""OffsetCommit (key 8), versions 2 to 10."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, int64, string, uuid


@struct
class OffsetCommitRequestPartition:
    """Offset commit request partition of OffsetCommitRequest."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1)
    committed_metadata: str | None = string(nullable_since=0)


@struct
class OffsetCommitRequestTopic:
    """Offset commit request topic of OffsetCommitRequest."""

    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(range(2, 11), flexible_since=8)
class OffsetCommitRequest:
    """The request of OffsetCommit, versions 2 to 10."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=7, nullable_since=7, default=None)
    retention_time_ms: int = int64(until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    """Offset commit response partition of OffsetCommitResponse."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    """Offset commit response topic of OffsetCommitResponse."""

    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(range(2, 11), flexible_since=8)
class OffsetCommitResponse:
    """The response of OffsetCommit, versions 2 to 10."""

    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
