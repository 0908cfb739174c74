"""OffsetForLeaderEpoch (key 23), versions 2 to 4."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, int64, string


@struct
class OffsetForLeaderPartition:
    """Offset for leader partition of OffsetForLeaderEpochRequest."""

    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic:
    """Offset for leader topic of OffsetForLeaderEpochRequest."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(range(2, 5), flexible_since=4)
class OffsetForLeaderEpochRequest:
    """The request of OffsetForLeaderEpoch, versions 2 to 4."""

    replica_id: int = int32(since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset:
    """Epoch end offset of OffsetForLeaderEpochResponse."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    """Offset for leader topic result of OffsetForLeaderEpochResponse."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message(range(2, 5), flexible_since=4)
class OffsetForLeaderEpochResponse:
    """The response of OffsetForLeaderEpoch, versions 2 to 4."""

    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
