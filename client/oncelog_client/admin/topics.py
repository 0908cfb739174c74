"""Topics: list, describe."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client.admin.topic_descriptions import TopicDescription, TopicListing
from oncelog_client.core.arguments import texts
from oncelog_client.errors import KafkaError, check, error_for
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from oncelog_protocol.types import uuid_to_string


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
    names = texts("names", topics)
    response = await _metadata(cluster, names, timeout_ms)
    merged = cluster.metadata.merged(response, whole=False)
    for row in response.topics:
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_topic(row.name or "")
        check(row.error_code, row.name)
    return {
        name: TopicDescription(name, info.topic_id, info.is_internal, info.partitions)
        for name in names
        if (info := merged.topics[name])
    }


async def describe_topics_by_id(
    cluster: Cluster, topic_ids: Iterable[bytes], timeout_ms: int
) -> dict[bytes, TopicDescription | KafkaError]:
    wanted = list(dict.fromkeys(topic_ids))
    rows = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in wanted]
    response = await _response(cluster, rows, timeout_ms) if rows else MetadataResponse()
    merged = cluster.metadata.merged(response, whole=False)
    found: dict[bytes, TopicDescription | KafkaError] = {}
    for row in response.topics:
        if row.error_code or not row.name:
            found[row.topic_id] = error_for(row.error_code, uuid_to_string(row.topic_id))
        else:
            info = merged.topics[row.name]
            found[row.topic_id] = TopicDescription(
                row.name, row.topic_id, info.is_internal, info.partitions
            )
    return found


async def hidden_topics(cluster: Cluster, names: Iterable[str], timeout_ms: int) -> set[str]:
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return set()
    response = await _metadata(cluster, wanted, timeout_ms)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allowed = {row.name for row in response.topics if row.error_code != denied}
    return {name for name in wanted if name not in allowed}


async def _metadata(
    cluster: Cluster, topics: list[str] | None, timeout_ms: int
) -> MetadataResponse:
    rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return await _response(cluster, rows, timeout_ms)


async def _response(
    cluster: Cluster, topics: list[MetadataRequestTopic] | None, timeout_ms: int
) -> MetadataResponse:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    async def attempt() -> MetadataResponse:
        response = await cluster.call_any(request, MetadataResponse)
        for row in response.topics:
            if row.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                raise error_for(row.error_code, row.name)
        return response

    return await cluster.retry(attempt, timeout_ms)


def no_topic(name: str) -> KafkaError:
    # A plain KafkaError is not retried. `error_for` would return a RetriableError for this code,
    # because producers and consumers wait for a missing topic.
    return KafkaError(f"there is no topic {name}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
