"""DeleteRecords (key 21, versions 0 to 2): moves the start of partitions forward.

* v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, int64, string


@struct
class DeleteRecordsPartition:
    """The offset before which records are deleted; -1 is the high watermark."""

    partition_index: int = int32()
    offset: int = int64()


@struct
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@api_message(ApiKey.DELETE_RECORDS)
class DeleteRecordsRequest:
    """The partitions with records to delete (KIP-107)."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult:
    """The new start of one partition."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult:
    """The outcome for one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@api_message(ApiKey.DELETE_RECORDS)
class DeleteRecordsResponse:
    """The outcome for each partition."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
