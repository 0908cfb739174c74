"""Reassignments of partitions: alter, list (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog_client.admin.reassignment_descriptions import PartitionReassignment
from oncelog_client.admin.row_retries import retry_rows, row_error
from oncelog_client.errors import KafkaError, check
from oncelog_client.io.cluster import Cluster
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
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
    async def attempt(
        rows: Sequence[tuple[TopicPartition, ReassignablePartition]],
    ) -> list[tuple[TopicPartition, KafkaError | None]]:
        topics: dict[str, list[ReassignablePartition]] = {}
        for (topic, _), row in rows:
            topics.setdefault(topic, []).append(row)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms,
            allow_replication_factor_change,
            [ReassignableTopic(topic, partitions) for topic, partitions in topics.items()],
        )
        response = await cluster.call_controller(request, AlterPartitionReassignmentsResponse)
        check(response.error_code, response.error_message)
        return [
            _outcome(TopicPartition(topic.name, row.partition_index), row)
            for topic in response.responses
            for row in topic.partitions
        ]

    rows = [
        (
            partition,
            ReassignablePartition(
                partition.partition, None if replicas is None else list(replicas)
            ),
        )
        for partition, replicas in reassignments.items()
    ]
    await retry_rows(cluster, rows, attempt, timeout_ms)


def _outcome(
    partition: TopicPartition, row: ReassignablePartitionResponse
) -> tuple[TopicPartition, KafkaError | None]:
    if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # A plain KafkaError is not retried, as in Kafka's Admin.
        message = f"there is no partition {partition}"
        return partition, KafkaError(message, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    message = f"{partition}: {row.error_message}" if row.error_message else str(partition)
    return partition, row_error(row.error_code, message)


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
