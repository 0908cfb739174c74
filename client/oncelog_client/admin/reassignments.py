"""Reassignments of partitions: alter, list (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog_client.admin.reassignment_descriptions import PartitionReassignment
from oncelog_client.errors import KafkaError, check
from oncelog_client.io.cluster import Cluster
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from oncelog_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


async def alter_reassignments(
    cluster: Cluster,
    reassignments: Mapping[TopicPartition, Sequence[int] | None],
    timeout_ms: int,
    *,
    allow_replication_factor_change: bool,
) -> None:
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), replicas in reassignments.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(topic, []).append(ReassignablePartition(partition, wanted))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms,
        allow_replication_factor_change,
        [ReassignableTopic(topic, rows) for topic, rows in topics.items()],
    )

    async def attempt() -> None:
        response = await cluster.call_controller(request, AlterPartitionReassignmentsResponse)
        check(response.error_code, response.error_message)
        for topic in response.responses:
            for row in topic.partitions:
                about = f"{topic.name}-{row.partition_index}"
                if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    # A plain KafkaError is not retried, as in Kafka's Admin.
                    raise KafkaError(
                        f"there is no partition {about}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                message = f"{about}: {row.error_message}" if row.error_message else about
                check(row.error_code, message)

    await cluster.retry(attempt, timeout_ms)


async def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> dict[TopicPartition, PartitionReassignment]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions or ():
        topics.setdefault(topic, []).append(partition)
    request = ListPartitionReassignmentsRequest(
        timeout_ms,
        None
        if partitions is None
        else [
            ListPartitionReassignmentsTopics(topic, numbers) for topic, numbers in topics.items()
        ],
    )

    async def attempt() -> ListPartitionReassignmentsResponse:
        response = await cluster.call_controller(request, ListPartitionReassignmentsResponse)
        check(response.error_code, response.error_message)
        return response

    response = await cluster.retry(attempt, timeout_ms)
    return {
        TopicPartition(topic.name, row.partition_index): PartitionReassignment(
            tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
        )
        for topic in response.topics
        for row in topic.partitions
    }
