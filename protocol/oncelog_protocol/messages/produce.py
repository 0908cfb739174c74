"""Produce (key 0, versions 3 to 13): appends record batches to partitions.

* v3: transactional id, record format v2 (KIP-98)
* v5: log start offset in the response
* v7: zstd (KIP-110)
* v8: record errors and a message (KIP-467)
* v9: flexible
* v10: current leader and its address in the response (KIP-951)
* v11: the client knows TRANSACTION_ABORTABLE (KIP-890)
* v12: the first write adds a partition to the transaction (KIP-890)
* v13: topics by id (KIP-516)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
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
    """Batches for one partition; the broker accepts exactly one batch."""

    index: int = int32()
    records: Records | None = records(nullable=True)


@struct
class TopicProduceData:
    """Batches for the partitions of one topic."""

    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@api_message(ApiKey.PRODUCE)
class ProduceRequest:
    """The batches to append. `acks` is the number of replicas that must have the batches: 0, 1, or
    -1 for all in-sync replicas."""

    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)
    transaction_group_id: str | None = string(
        since=9, nullable=True, tag=OWN_TAGS["transaction_group_id"], default=None
    )


@struct
class BatchIndexAndErrorMessage:
    """A faulty record: the broker has refused its batch."""

    batch_index: int = int32(since=8)
    batch_index_error_message: str | None = string(since=8, nullable=True, default=None)


@struct
class LeaderIdAndEpoch:
    """The current leader of the partition."""

    leader_id: int = int32(since=10, default=-1)
    leader_epoch: int = int32(since=10, default=-1)


@struct
class PartitionProduceResponse:
    """The place of the batch, or the error."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = string(since=8, nullable=True, default=None)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse:
    """The outcome for the partitions of one topic."""

    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_responses: list[PartitionProduceResponse] = array(
        PartitionProduceResponse, takes_rows=True
    )


@struct
class NodeEndpoint:
    """The address of a leader in this response."""

    node_id: int = int32(since=10)
    host: str = string(since=10)
    port: int = int32(since=10)
    rack: str | None = string(since=10, nullable=True, default=None)


@api_message(ApiKey.PRODUCE)
class ProduceResponse:
    """The outcome for each partition; with acks=0 there is no response."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
