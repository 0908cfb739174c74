"""WriteTxnMarkers (key 27, versions 1 to 2).

Makes the leaders of partitions append the markers that end a transaction.

* v1: flexible
* v2: transaction version of the producer (KIP-1228)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, int64, string


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@struct
class WritableTxnMarker:
    """The end of one transaction, with the epoch of its coordinator."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2)


@api_message(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersRequest:
    """Markers to append (KIP-98); from coordinators only."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerPartitionResult:
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class WritableTxnMarkerTopicResult:
    """The outcome for one topic."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult:
    """The outcome for one producer."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@api_message(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersResponse:
    """The outcome for each marker and partition."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
