"""Fetch (key 1, versions 4 to 18): reads record batches from partitions.

* v4: isolation level and aborted transactions (KIP-98)
* v5: log start offset
* v7: fetch sessions (KIP-227)
* v9: current leader epoch (KIP-320)
* v10: zstd (KIP-110)
* v11: rack of the client, preferred replica (KIP-392)
* v12: flexible; last fetched and diverging epoch (KIP-595)
* v13: topics by id (KIP-516)
* v14: tiered storage (KIP-405)
* v15: replica state is a tagged field (KIP-903)
* v16: addresses of leaders in the response (KIP-951)
* v17: directory of the replica (KIP-853)
* v18: high watermark of the follower (KIP-1166)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
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
    """The replica that sends the request; absent for a consumer (KIP-903)."""

    replica_id: int = int32(since=15, default=-1)
    replica_epoch: int = int64(since=15, default=-1)


@struct
class FetchPartition:
    """The offset to read from in one partition, and the maximum size of its records."""

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
    """The partitions of one topic."""

    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    """Partitions to take out of the fetch session."""

    topic: str = string(since=7, until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[int] = array(int32, since=7)


@api_message(ApiKey.FETCH)
class FetchRequest:
    """The topics to read, the limits of the wait and of the size, and the isolation level."""

    cluster_id: str | None = string(since=12, nullable=True, tag=0, default=None)
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
    """The end offset of an epoch: the follower has to truncate there."""

    epoch: int = int32(since=12, default=-1)
    end_offset: int = int64(since=12, default=-1)


@struct
class LeaderIdAndEpoch:
    """The current leader of the partition, and its epoch."""

    leader_id: int = int32(since=12, default=-1)
    leader_epoch: int = int32(since=12, default=-1)


@struct
class SnapshotId:
    """The snapshot that the follower has to fetch instead of records (KIP-630)."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    """From `first_offset` on, drop this producer's batches up to its abort marker."""

    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    """Batches of one partition, with its high watermark and last stable offset."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = nested(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = nested(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable=True)
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Records | None = records(nullable=True)


@struct
class FetchableTopicResponse:
    """The partitions of one topic."""

    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    """The address of a leader in this response."""

    node_id: int = int32(since=16)
    host: str = string(since=16)
    port: int = int32(since=16)
    rack: str | None = string(since=16, nullable=True, default=None)


@api_message(ApiKey.FETCH)
class FetchResponse:
    """The records by topic. Within a fetch session, only partitions with changes are included."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=7)
    session_id: int = int32(since=7)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)
