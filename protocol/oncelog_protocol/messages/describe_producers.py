"""DescribeProducers (key 61, version 0): the producers of a partition, with their open
transactions.

Source: KIP-664. The tagged fields are oncelog's own.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, int64, string


@struct
class TopicRequest:
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@api_message(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersRequest:
    """The requested partitions; this broker must have them."""

    topics: list[TopicRequest] = array(TopicRequest)


@struct
class ProducerState:
    """One producer id. `held_records` and `held_bytes` are oncelog's own: the number and size of
    the records from the start of its open transaction to the high watermark. read_committed readers
    do not get them yet."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)
    held_records: int = int64(tag=OWN_TAGS["held_records"], default=-1)
    held_bytes: int = int64(tag=OWN_TAGS["held_bytes"], default=-1)


@struct
class PartitionResponse:
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@struct
class TopicResponse:
    """The partitions of one topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@api_message(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersResponse:
    """The producers of each partition."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
