"""Committed offsets of a group, written and read at the group's coordinator. Consumer and admin
client use this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_client.core.request_versions import ANY_VERSION, versions_with
from oncelog_client.errors import RetriableError, StaleCoordinatorError, check, error_for
from oncelog_client.values import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

from .cluster import Cluster, CoordinatorType

CommittedOffsets = Mapping[TopicPartition, OffsetAndMetadata]

# KIP-447
_STABLE_VERSIONS = versions_with(OffsetFetchRequest, "require_stable")


async def commit_offsets(
    cluster: Cluster, group: ConsumerGroupMetadata, offsets: CommittedOffsets, timeout_ms: float
) -> None:
    """Commit offsets for a group. `group` names the member.

    Raises CommitFailedError, RebalanceInProgressError, FencedInstanceError, AuthorizationError or
    another KafkaError. Raises RetriableError when time is up.
    """
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        row = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
        row.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.known_epoch,
                committed_metadata=offset.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )

    async def attempt() -> None:
        response = await cluster.call_coordinator(
            CoordinatorType.GROUP, group.group_id, request, OffsetCommitResponse
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code == ErrorCode.REQUEST_TIMED_OUT:
                    raise StaleCoordinatorError("the commit timed out", ErrorCode.REQUEST_TIMED_OUT)
                if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    message = f"{topic.name}-{row.partition_index}"
                    raise RetriableError(message, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                check(row.error_code, f"{topic.name}-{row.partition_index}")

    await cluster.ask_coordinator(CoordinatorType.GROUP, group.group_id, attempt, timeout_ms)


async def fetch_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: float,
    *,
    require_stable: bool,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of `partitions`, or all offsets of the group if it is None. A
    partition without an offset is left out. With `require_stable`, wait for an offset that is
    pending in a transaction (KIP-447).
    """

    async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        return await ask_offsets(cluster, group_id, wanted, require_stable=require_stable)

    wanted = None if partitions is None else list(partitions)
    return await cluster.retry(attempt, timeout_ms)


async def ask_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Make one attempt of `fetch_offsets`. Raises KafkaError. After a RetriableError a retry may
    succeed."""
    try:
        response = await cluster.call_coordinator(
            CoordinatorType.GROUP,
            group_id,
            _fetch_request(group_id, partitions, require_stable),
            OffsetFetchResponse,
            versions=_STABLE_VERSIONS if require_stable else ANY_VERSION,
        )
        return _read_offsets(response)
    except StaleCoordinatorError:
        cluster.forget_coordinator(CoordinatorType.GROUP, group_id)
        raise


def _fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, require_stable: bool
) -> OffsetFetchRequest:
    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
    rows = None if topics is None else list(topics.items())
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if rows is None
        else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in rows],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=None
                if rows is None
                else [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in rows],
            )
        ],
        require_stable=require_stable,
    )


def _read_offsets(response: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
    check(response.error_code)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    rows: list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = []
    rows += [(topic.name, row) for topic in response.topics for row in topic.partitions]
    for group in response.groups:
        check(group.error_code, group.group_id)
        rows += [(topic.name, row) for topic in group.topics for row in topic.partitions]
    for name, row in rows:
        partition = TopicPartition(name, row.partition_index)
        if row.error_code:
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise error_for(row.error_code, str(partition))
        if row.committed_offset >= 0:
            epoch = row.committed_leader_epoch
            found[partition] = OffsetAndMetadata(
                row.committed_offset, row.metadata or "", None if epoch < 0 else epoch
            )
    return found
