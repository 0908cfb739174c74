"""Topics: create, delete, list, describe, add partitions, delete records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from oncelog_client.admin.topic_descriptions import NewTopic, TopicDescription, TopicListing
from oncelog_client.cluster import Cluster
from oncelog_client.errors import KafkaError, RetriableError, check, error_for
from oncelog_client.values import TopicPartition
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
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from oncelog_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

# To the high watermark (KIP-107).
ALL_RECORDS = -1


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
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


async def delete_topics(cluster: Cluster, topics: Iterable[str], timeout_ms: int) -> None:
    names = list(topics)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=timeout_ms,
    )

    async def attempt() -> None:
        response = await cluster.call_controller(request, DeleteTopicsResponse)
        for row in response.responses:
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise _no_topic(row.name or "")
            check(row.error_code, _about(row.name or "", row.error_message))

    await cluster.retry(attempt, timeout_ms)


async def list_topics(
    cluster: Cluster, timeout_ms: int, *, list_internal: bool
) -> dict[str, TopicListing]:
    response = await _metadata(cluster, None, timeout_ms)
    return {
        row.name: TopicListing(row.name, row.topic_id, row.is_internal)
        for row in sorted(response.topics, key=lambda row: row.name or "")
        if row.name and (list_internal or not row.is_internal)
    }


async def describe_topics(
    cluster: Cluster, topics: Iterable[str], timeout_ms: int
) -> dict[str, TopicDescription]:
    names = list(topics)
    response = await _metadata(cluster, names, timeout_ms)
    merged = cluster.metadata.merged(response, whole=False)
    for row in response.topics:
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise _no_topic(row.name or "")
        check(row.error_code, row.name)
    return {
        name: TopicDescription(name, info.topic_id, info.is_internal, info.partitions)
        for name in names
        if (info := merged.topics[name])
    }


async def _metadata(
    cluster: Cluster, topics: list[str] | None, timeout_ms: int
) -> MetadataResponse:
    request = MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
    )

    async def attempt() -> MetadataResponse:
        response = await cluster.call_any(request, MetadataResponse)
        for row in response.topics:
            if row.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                raise error_for(row.error_code, row.name)
        return response

    return await cluster.retry(attempt, timeout_ms)


async def create_partitions(
    cluster: Cluster, counts: Mapping[str, int], timeout_ms: int, *, validate_only: bool
) -> None:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in counts.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )

    async def attempt() -> None:
        response = await cluster.call_controller(request, CreatePartitionsResponse)
        for row in response.results:
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise _no_topic(row.name)
            check(row.error_code, _about(row.name, row.error_message))

    await cluster.retry(attempt, timeout_ms)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    missing = dict(before)
    low_watermarks: dict[TopicPartition, int] = {}
    cluster.watch(partition.topic for partition in missing)

    async def attempt() -> None:
        await cluster.refresh()
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, offset in missing.items():
            leader = cluster.metadata.leader(partition)
            if leader is None:
                raise cluster.metadata.no_leader(partition)
            by_leader.setdefault(leader, {})[partition] = offset
        responses = await asyncio.gather(
            *(
                cluster.call(node, _delete_records(rows, timeout_ms), DeleteRecordsResponse)
                for node, rows in by_leader.items()
            )
        )
        failure: RetriableError | None = None
        for response in responses:
            for topic in response.topics:
                for row in topic.partitions:
                    partition = TopicPartition(topic.name, row.partition_index)
                    if row.error_code == ErrorCode.NONE:
                        low_watermarks[partition] = row.low_watermark
                        missing.pop(partition, None)
                        continue
                    error = error_for(row.error_code, str(partition))
                    if not isinstance(error, RetriableError):
                        raise error
                    failure = error
        if failure is not None:
            raise failure

    await cluster.retry(attempt, timeout_ms)
    return low_watermarks


def _delete_records(rows: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (topic, partition), offset in rows.items():
        topics.setdefault(topic, DeleteRecordsTopic(name=topic)).partitions.append(
            DeleteRecordsPartition(partition_index=partition, offset=offset)
        )
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)


def _no_topic(name: str) -> KafkaError:
    # Retriable for those who wait for a topic, not for those who name it to change it.
    return KafkaError(f"there is no topic {name}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _about(name: str, message: str | None) -> str:
    return f"{name}: {message}" if message else name
