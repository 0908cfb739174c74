"""OffsetFetch (key 9, versions 1 to 10): returns the committed offsets of groups.

* v1: offsets stored in Kafka
* v2: null requests all topics; an error for the group (KIP-88)
* v3: throttle time (KIP-124)
* v5: leader epoch (KIP-320)
* v6: flexible
* v7: require_stable: wait for pending transactions (KIP-447)
* v8: several groups (KIP-709)
* v9: member epochs (KIP-848)
* v10: topics by id (KIP-848)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string, uuid


@struct
class OffsetFetchRequestTopic:
    """Partitions of one topic (up to version 7)."""

    name: str = string(until=7)
    partition_indexes: list[int] = array(int32, until=7)


@struct
class OffsetFetchRequestTopics:
    """Partitions of one topic (from version 8 on)."""

    name: str = string(since=8, until=9)
    topic_id: bytes = uuid(since=10)
    partition_indexes: list[int] = array(int32, since=8)


@struct
class OffsetFetchRequestGroup:
    """The requested topics of one group."""

    group_id: str = string(since=8)
    member_id: str | None = string(since=9, nullable=True, default=None)
    member_epoch: int = int32(since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, since=8, nullable=True
    )


@api_message(ApiKey.OFFSET_FETCH)
class OffsetFetchRequest:
    """Groups and partitions; null topics request all topics with an offset."""

    group_id: str = string(until=7)
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, until=7, nullable_since=2
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


@struct
class OffsetFetchResponsePartition:
    """The committed offset of a partition, -1 if there is none. Used up to version 7."""

    partition_index: int = int32(until=7)
    committed_offset: int = int64(until=7)
    committed_leader_epoch: int = int32(since=5, until=7, default=-1)
    metadata: str | None = string(until=7, nullable=True)
    error_code: int = int16(until=7)


@struct
class OffsetFetchResponseTopic:
    """Offsets of one topic (up to version 7)."""

    name: str = string(until=7)
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, until=7)


@struct
class OffsetFetchResponsePartitions:
    """The committed offset of a partition, -1 if there is none. Used from version 8 on."""

    partition_index: int = int32(since=8)
    committed_offset: int = int64(since=8)
    committed_leader_epoch: int = int32(since=8, default=-1)
    metadata: str | None = string(since=8, nullable=True)
    error_code: int = int16(since=8)


@struct
class OffsetFetchResponseTopics:
    """Offsets of one topic (from version 8 on)."""

    name: str = string(since=8, until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, since=8)


@struct
class OffsetFetchResponseGroup:
    """Offsets of one group."""

    group_id: str = string(since=8)
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, since=8)
    error_code: int = int16(since=8)


@api_message(ApiKey.OFFSET_FETCH)
class OffsetFetchResponse:
    """The committed offsets. An offset that is pending in a transaction gets UNSTABLE_OFFSET_COMMIT
    if the request has require_stable (KIP-447)."""

    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
