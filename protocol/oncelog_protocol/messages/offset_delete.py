"""OffsetDelete (key 47, version 0): deletes committed offsets of a group."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, string


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@api_message(ApiKey.OFFSET_DELETE)
class OffsetDeleteRequest:
    """The group, and the partitions with offsets to delete (KIP-496)."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic:
    """The outcome for one topic."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@api_message(ApiKey.OFFSET_DELETE)
class OffsetDeleteResponse:
    """The outcome for each partition."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
