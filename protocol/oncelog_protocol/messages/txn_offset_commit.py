"""TxnOffsetCommit (key 28), versions 0 to 6."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, int64, string, uuid


@struct
class TxnOffsetCommitRequestPartition:
    """Txn offset commit request partition of TxnOffsetCommitRequest."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1)
    committed_metadata: str | None = string(nullable_since=0)


@struct
class TxnOffsetCommitRequestTopic:
    """Txn offset commit request topic of TxnOffsetCommitRequest."""

    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message(range(0, 7), flexible_since=3)
class TxnOffsetCommitRequest:
    """The request of TxnOffsetCommit, versions 0 to 6."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32(since=3, default=-1)
    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@struct
class TxnOffsetCommitResponsePartition:
    """Txn offset commit response partition of TxnOffsetCommitResponse."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class TxnOffsetCommitResponseTopic:
    """Txn offset commit response topic of TxnOffsetCommitResponse."""

    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message(range(0, 7), flexible_since=3)
class TxnOffsetCommitResponse:
    """The response of TxnOffsetCommit, versions 0 to 6."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
