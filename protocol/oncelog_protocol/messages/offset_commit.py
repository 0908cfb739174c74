"""OffsetCommit (key 8, versions 2 to 10): stores how far a group has read.

* v2: retention time; no timestamps
* v3: throttle time (KIP-124)
* v5: no retention time (KIP-211)
* v6: leader epoch (KIP-320)
* v7: static members (KIP-345)
* v8: flexible
* v9: member epochs and their errors (KIP-848)
* v10: topics by id (KIP-848)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, int64, string, uuid


@struct
class OffsetCommitRequestPartition:
    """The next offset to read in one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1)
    committed_metadata: str | None = string(nullable=True)


@struct
class OffsetCommitRequestTopic:
    """Offsets of one topic."""

    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@api_message(ApiKey.OFFSET_COMMIT)
class OffsetCommitRequest:
    """The offsets of a member. The generation is -1 if the client is no member."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=7, nullable=True, default=None)
    retention_time_ms: int = int64(until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    """The outcome for one topic."""

    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@api_message(ApiKey.OFFSET_COMMIT)
class OffsetCommitResponse:
    """The outcome for each partition."""

    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
