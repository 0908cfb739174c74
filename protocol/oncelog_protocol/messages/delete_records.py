"""DeleteRecords (key 21), versions 0 to 2."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, int64, string


@struct
class DeleteRecordsPartition:
    """Delete records partition of DeleteRecordsRequest."""

    partition_index: int = int32()
    offset: int = int64()


@struct
class DeleteRecordsTopic:
    """Delete records topic of DeleteRecordsRequest."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(range(0, 3), flexible_since=2)
class DeleteRecordsRequest:
    """The request of DeleteRecords, versions 0 to 2."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult:
    """Delete records partition result of DeleteRecordsResponse."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult:
    """Delete records topic result of DeleteRecordsResponse."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(range(0, 3), flexible_since=2)
class DeleteRecordsResponse:
    """The response of DeleteRecords, versions 0 to 2."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
