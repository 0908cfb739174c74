"""Topics: create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_client.admin.topic_descriptions import NewTopic
from oncelog_client.admin.topics import no_topic
from oncelog_client.core.arguments import mapping, texts
from oncelog_client.errors import check
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


async def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], timeout_ms: int, *, validate_only: bool
) -> None:
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )

    async def attempt() -> None:
        response = await cluster.call_controller(request, CreateTopicsResponse)
        for row in response.topics:
            check(row.error_code, _about(row.name, row.error_message))

    await cluster.retry(attempt, timeout_ms)


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
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=timeout_ms,
    )

    async def attempt() -> None:
        response = await cluster.call_controller(request, DeleteTopicsResponse)
        for row in response.responses:
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise no_topic(row.name or "")
            check(row.error_code, _about(row.name or "", row.error_message))

    await cluster.retry(attempt, timeout_ms)


async def create_partitions(
    cluster: Cluster, counts: Mapping[str, int], timeout_ms: int, *, validate_only: bool
) -> None:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in mapping("counts", counts).items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )

    async def attempt() -> None:
        response = await cluster.call_controller(request, CreatePartitionsResponse)
        for row in response.results:
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise no_topic(row.name)
            check(row.error_code, _about(row.name, row.error_message))

    await cluster.retry(attempt, timeout_ms)


def _about(name: str, message: str | None) -> str:
    return f"{name}: {message}" if message else name
