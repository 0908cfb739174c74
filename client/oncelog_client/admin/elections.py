"""Elections of leaders on request (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from oncelog_client.errors import KafkaError, check, error_for
from oncelog_client.io.cluster import Cluster
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)


class ElectionType(IntEnum):
    """PREFERRED: the first replica, if it is in sync. UNCLEAN: any live replica, for a partition
    without a leader; committed records may be lost."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect_leaders(
    cluster: Cluster,
    election_type: ElectionType,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    topics: dict[str, TopicPartitions] = {}
    for topic, partition in partitions or ():
        topics.setdefault(topic, TopicPartitions(topic)).partitions.append(partition)
    request = ElectLeadersRequest(
        election_type, None if partitions is None else list(topics.values()), timeout_ms
    )

    async def attempt() -> ElectLeadersResponse:
        response = await cluster.call_any(request, ElectLeadersResponse)
        check(response.error_code)
        return response

    response = await cluster.retry(attempt, timeout_ms)
    return {
        TopicPartition(topic.topic, row.partition_id): _error(topic.topic, row)
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


def _error(topic: str, row: PartitionResult) -> KafkaError | None:
    if row.error_code == ErrorCode.NONE:
        return None
    return error_for(row.error_code, row.error_message or f"{topic}-{row.partition_id}")
