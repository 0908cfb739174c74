"""AlterPartitionReassignments (key 45, versions 0 to 1): moves partitions to other brokers, or
cancels such moves (KIP-455).

* v1: a request may forbid a change of the number of replicas (KIP-860)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, string


@struct
class ReassignablePartition:
    """The new replicas of a partition; null cancels its reassignment."""

    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable=True, default=None)


@struct
class ReassignableTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@api_message(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsRequest:
    """The wanted replicas of partitions."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@struct
class ReassignablePartitionResponse:
    """The outcome of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@struct
class ReassignableTopicResponse:
    """The outcomes of one topic's partitions."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@api_message(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsResponse:
    """The outcomes, or an error of the whole request."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
