"""Produce (key 0), versions 3 to 13."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import (
    Records,
    array,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)


@struct
class PartitionProduceData:
    """Partition produce data of ProduceRequest."""

    index: int = int32()
    records: Records | None = records(nullable_since=0)


@struct
class TopicProduceData:
    """Topic produce data of ProduceRequest."""

    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(range(3, 14), flexible_since=9)
class ProduceRequest:
    """The request of Produce, versions 3 to 13."""

    transactional_id: str | None = string(nullable_since=3, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    """Batch index and error message of ProduceResponse."""

    batch_index: int = int32(since=8)
    batch_index_error_message: str | None = string(since=8, nullable_since=8, default=None)


@struct
class LeaderIdAndEpoch:
    """Leader id and epoch of ProduceResponse."""

    leader_id: int = int32(since=10, default=-1)
    leader_epoch: int = int32(since=10, default=-1)


@struct
class PartitionProduceResponse:
    """Partition produce response of ProduceResponse."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = string(since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse:
    """Topic produce response of ProduceResponse."""

    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    """Node endpoint of ProduceResponse."""

    node_id: int = int32(since=10)
    host: str = string(since=10)
    port: int = int32(since=10)
    rack: str | None = string(since=10, nullable_since=10, default=None)


@message(range(3, 14), flexible_since=9)
class ProduceResponse:
    """The response of Produce, versions 3 to 13."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
