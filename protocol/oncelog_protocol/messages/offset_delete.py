"""OffsetDelete (key 47), versions 0 to 0."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, string


@struct
class OffsetDeleteRequestPartition:
    """Offset delete request partition of OffsetDeleteRequest."""

    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    """Offset delete request topic of OffsetDeleteRequest."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(range(0, 1))
class OffsetDeleteRequest:
    """The request of OffsetDelete, versions 0 to 0."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    """Offset delete response partition of OffsetDeleteResponse."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic:
    """Offset delete response topic of OffsetDeleteResponse."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(range(0, 1))
class OffsetDeleteResponse:
    """The response of OffsetDelete, versions 0 to 0."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
