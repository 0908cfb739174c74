"""ListOffsets (key 2, versions 1 to 11).

Finds the offset for a timestamp, or one end of a partition.

* v1: one offset and its timestamp for each partition
* v2: isolation level (KIP-98)
* v4: leader epochs (KIP-320)
* v6: flexible
* v7: timestamp -3: the record with the largest timestamp (KIP-734)
* v8: timestamp -4: the earliest local offset (KIP-405)
* v9: timestamp -5: the latest offset in tiered storage (KIP-1005)
* v10: a timeout for remote look-ups (KIP-1075)
* v11: timestamp -6: the earliest offset not yet in tiered storage (KIP-1023)

The tagged fields are oncelog's own.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, int64, string


@struct
class ListOffsetsPartition:
    """The timestamp to look for: -1 is the end, -2 the start. `count_from` is oncelog's
    own: a group's committed offset, from which the broker counts the lag; -1 for no count."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1)
    timestamp: int = int64()
    count_from: int = int64(since=6, tag=OWN_TAGS["count_from"], default=-1)


@struct
class ListOffsetsTopic:
    """The requested partitions of one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@api_message(ApiKey.LIST_OFFSETS)
class ListOffsetsRequest:
    """The requested topics; with read_committed the end is the last stable offset."""

    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10)


@struct
class ListOffsetsPartitionResponse:
    """The offset, or -1 for none. The tagged fields are oncelog's own: the number of records
    that a read_committed reader gets between `count_from` and the last stable offset, and the
    number that open transactions hold back between the last stable offset and the high watermark.
    Both are -1 if the request has no `count_from`."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)
    readable_records: int = int64(since=6, tag=OWN_TAGS["readable_records"], default=-1)
    held_back_records: int = int64(since=6, tag=OWN_TAGS["held_back_records"], default=-1)


@struct
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@api_message(ApiKey.LIST_OFFSETS)
class ListOffsetsResponse:
    """The offsets by topic."""

    throttle_time_ms: int = int32(since=2)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
