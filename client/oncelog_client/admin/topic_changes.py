"""Topics: create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog_client.admin.row_retries import retry_rows, row_error
from oncelog_client.admin.topic_descriptions import NewTopic
from oncelog_client.admin.topics import no_topic
from oncelog_client.core.arguments import mapping, texts
from oncelog_client.errors import KafkaError
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

# A topic, and its error or None.
Outcome = tuple[str, KafkaError | None]


async def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], timeout_ms: int, *, validate_only: bool
) -> None:
    async def attempt(rows: Sequence[tuple[str, CreatableTopic]]) -> list[Outcome]:
        request = CreateTopicsRequest(
            topics=[row for _, row in rows], timeout_ms=timeout_ms, validate_only=validate_only
        )
        response = await cluster.call_controller(request, CreateTopicsResponse)
        return [
            (row.name, row_error(row.error_code, _about(row.name, row.error_message)))
            for row in response.topics
        ]

    rows = [(topic.name, _creatable(topic)) for topic in topics]
    await retry_rows(cluster, rows, attempt, timeout_ms, validate_only=validate_only)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.num_partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in mapping("configs", topic.configs).items()
        ],
    )


async def delete_topics(cluster: Cluster, topics: Iterable[str], timeout_ms: int) -> None:
    names = texts("names", topics)

    async def attempt(rows: Sequence[tuple[str, DeleteTopicState]]) -> list[Outcome]:
        request = DeleteTopicsRequest(
            topics=[row for _, row in rows],
            topic_names=[name for name, _ in rows],
            timeout_ms=timeout_ms,
        )
        response = await cluster.call_controller(request, DeleteTopicsResponse)
        return [
            _outcome(row.name or "", row.error_code, row.error_message)
            for row in response.responses
        ]

    rows = [(name, DeleteTopicState(name=name)) for name in names]
    await retry_rows(cluster, rows, attempt, timeout_ms)


async def create_partitions(
    cluster: Cluster, counts: Mapping[str, int], timeout_ms: int, *, validate_only: bool
) -> None:
    async def attempt(rows: Sequence[tuple[str, CreatePartitionsTopic]]) -> list[Outcome]:
        request = CreatePartitionsRequest(
            topics=[row for _, row in rows], timeout_ms=timeout_ms, validate_only=validate_only
        )
        response = await cluster.call_controller(request, CreatePartitionsResponse)
        return [_outcome(row.name, row.error_code, row.error_message) for row in response.results]

    rows = [
        (name, CreatePartitionsTopic(name=name, count=count, assignments=None))
        for name, count in mapping("counts", counts).items()
    ]
    await retry_rows(cluster, rows, attempt, timeout_ms, validate_only=validate_only)


def _outcome(name: str, code: int, message: str | None) -> Outcome:
    """Return the outcome for a topic that must exist."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return name, no_topic(name)
    return name, row_error(code, _about(name, message))


def _about(name: str, message: str | None) -> str:
    return f"{name}: {message}" if message else name
