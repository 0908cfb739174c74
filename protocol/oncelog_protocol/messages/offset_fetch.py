"""OffsetFetch (key 9), versions 1 to 10."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string, uuid


@struct
class OffsetFetchRequestTopic:
    """Offset fetch request topic of OffsetFetchRequest."""

    name: str = string(until=7)
    partition_indexes: list[int] = array(int32, until=7)


@struct
class OffsetFetchRequestTopics:
    """Offset fetch request topics of OffsetFetchRequest."""

    name: str = string(since=8, until=9)
    topic_id: bytes = uuid(since=10)
    partition_indexes: list[int] = array(int32, since=8)


@struct
class OffsetFetchRequestGroup:
    """Offset fetch request group of OffsetFetchRequest."""

    group_id: str = string(since=8)
    member_id: str | None = string(since=9, nullable_since=9, default=None)
    member_epoch: int = int32(since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, since=8, nullable_since=8
    )


@message(range(1, 11), flexible_since=6)
class OffsetFetchRequest:
    """The request of OffsetFetch, versions 1 to 10."""

    group_id: str = string(until=7)
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, until=7, nullable_since=2
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


@struct
class OffsetFetchResponsePartition:
    """Offset fetch response partition of OffsetFetchResponse."""

    partition_index: int = int32(until=7)
    committed_offset: int = int64(until=7)
    committed_leader_epoch: int = int32(since=5, until=7, default=-1)
    metadata: str | None = string(until=7, nullable_since=0)
    error_code: int = int16(until=7)


@struct
class OffsetFetchResponseTopic:
    """Offset fetch response topic of OffsetFetchResponse."""

    name: str = string(until=7)
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, until=7)


@struct
class OffsetFetchResponsePartitions:
    """Offset fetch response partitions of OffsetFetchResponse."""

    partition_index: int = int32(since=8)
    committed_offset: int = int64(since=8)
    committed_leader_epoch: int = int32(since=8, default=-1)
    metadata: str | None = string(since=8, nullable_since=8)
    error_code: int = int16(since=8)


@struct
class OffsetFetchResponseTopics:
    """Offset fetch response topics of OffsetFetchResponse."""

    name: str = string(since=8, until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, since=8)


@struct
class OffsetFetchResponseGroup:
    """Offset fetch response group of OffsetFetchResponse."""

    group_id: str = string(since=8)
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, since=8)
    error_code: int = int16(since=8)


@message(range(1, 11), flexible_since=6)
class OffsetFetchResponse:
    """The response of OffsetFetch, versions 1 to 10."""

    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
