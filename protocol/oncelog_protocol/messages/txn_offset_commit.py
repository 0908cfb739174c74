"""TxnOffsetCommit (key 28, versions 0 to 6).

Stores offsets that take effect when the transaction commits.

* v1: a throttled client gets the response before the delay
* v2: leader epoch (KIP-320)
* v3: flexible; member and generation, to fence stale members (KIP-447)
* v4: the client knows TRANSACTION_ABORTABLE (KIP-890)
* v5: this request adds the group to the transaction (KIP-890)
* v6: topics by id
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, int64, string, uuid


@struct
class TxnOffsetCommitRequestPartition:
    """The next offset to read in one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1)
    committed_metadata: str | None = string(nullable=True)


@struct
class TxnOffsetCommitRequestTopic:
    """Offsets of one topic."""

    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@api_message(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitRequest:
    """Offsets, with their transaction and the member that read up to them."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32(since=3, default=-1)
    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)
    transaction_group_id: str | None = string(
        since=3, nullable=True, tag=OWN_TAGS["transaction_group_id"], default=None
    )


@struct
class TxnOffsetCommitResponsePartition:
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class TxnOffsetCommitResponseTopic:
    """The outcome for one topic."""

    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@api_message(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitResponse:
    """The outcome for each partition."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
