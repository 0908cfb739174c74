"""Fetch (key 1), versions 4 to 18."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import (
    INT32_MAX,
    INT64_MAX,
    Records,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)


@struct
class ReplicaState:
    """Replica state of FetchRequest."""

    replica_id: int = int32(since=15, default=-1)
    replica_epoch: int = int64(since=15, default=-1)


@struct
class FetchPartition:
    """Fetch partition of FetchRequest."""

    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, tag=0)
    high_watermark: int = int64(since=18, tag=1, default=INT64_MAX)


@struct
class FetchTopic:
    """Fetch topic of FetchRequest."""

    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    """Forgotten topic of FetchRequest."""

    topic: str = string(since=7, until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[int] = array(int32, since=7)


@message(range(4, 19), flexible_since=12)
class FetchRequest:
    """The request of Fetch, versions 4 to 18."""

    cluster_id: str | None = string(since=12, nullable_since=12, tag=0, default=None)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState | None = nested(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=INT32_MAX)
    isolation_level: int = int8()
    session_id: int = int32(since=7)
    session_epoch: int = int32(since=7, default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11)


@struct
class EpochEndOffset:
    """Epoch end offset of FetchResponse."""

    epoch: int = int32(since=12, default=-1)
    end_offset: int = int64(since=12, default=-1)


@struct
class LeaderIdAndEpoch:
    """Leader id and epoch of FetchResponse."""

    leader_id: int = int32(since=12, default=-1)
    leader_epoch: int = int32(since=12, default=-1)


@struct
class SnapshotId:
    """Snapshot id of FetchResponse."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    """Aborted transaction of FetchResponse."""

    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    """Partition data of FetchResponse."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = nested(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = nested(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, nullable_since=4
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Records | None = records(nullable_since=0)


@struct
class FetchableTopicResponse:
    """Fetchable topic response of FetchResponse."""

    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    """Node endpoint of FetchResponse."""

    node_id: int = int32(since=16)
    host: str = string(since=16)
    port: int = int32(since=16)
    rack: str | None = string(since=16, nullable_since=16, default=None)


@message(range(4, 19), flexible_since=12)
class FetchResponse:
    """The response of Fetch, versions 4 to 18."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=7)
    session_id: int = int32(since=7)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)
