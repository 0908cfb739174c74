"""ElectLeaders (key 43, versions 0 to 2): elects preferred or unclean leaders (KIP-183, KIP-460).

* v1: unclean elections
* v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


@api_message(ApiKey.ELECT_LEADERS)
class ElectLeadersRequest:
    """The partitions (null for all), and the type of election: 0 preferred, 1 unclean."""

    election_type: int = int8(since=1)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable=True, default=None
    )
    timeout_ms: int = int32(default=60000)


@struct
class PartitionResult:
    """The outcome for one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@struct
class ReplicaElectionResult:
    """The outcomes for one topic."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@api_message(ApiKey.ELECT_LEADERS)
class ElectLeadersResponse:
    """The outcome for each requested partition. If all partitions were requested, those that needed
    no election are left out."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
