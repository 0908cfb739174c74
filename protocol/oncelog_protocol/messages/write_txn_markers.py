"""WriteTxnMarkers (key 27), versions 1 to 2."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, int64, string


@struct
class WritableTxnMarkerTopic:
    """Writable txn marker topic of WriteTxnMarkersRequest."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@struct
class WritableTxnMarker:
    """Writable txn marker of WriteTxnMarkersRequest."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2)


@message(range(1, 3), flexible_since=1)
class WriteTxnMarkersRequest:
    """The request of WriteTxnMarkers, versions 1 to 2."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerPartitionResult:
    """Writable txn marker partition result of WriteTxnMarkersResponse."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class WritableTxnMarkerTopicResult:
    """Writable txn marker topic result of WriteTxnMarkersResponse."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult:
    """Writable txn marker result of WriteTxnMarkersResponse."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(range(1, 3), flexible_since=1)
class WriteTxnMarkersResponse:
    """The response of WriteTxnMarkers, versions 1 to 2."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
