"""Offsets of the logs themselves, by time or at their ends: ListOffsets at the leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

from .cluster import Cluster
from .errors import RetriableError, error_for
from .values import OffsetAndTimestamp, TopicPartition

# Timestamps with a meaning of their own (KIP-79, KIP-734).
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

# Looking up by time is v1, by isolation level v2, the greatest timestamp v7.
_VERSIONS = range(1, 1 << 15)
_ISOLATED = range(2, 1 << 15)
_WITH_MAX_TIMESTAMP = range(7, 1 << 15)


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    timeout_ms: float,
    *,
    read_committed: bool,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """For each partition the first offset at or after the timestamp (ms), or LATEST, EARLIEST,
    MAX_TIMESTAMP; those without such a record left out. With `read_committed` the latest offset is
    the last stable one. Raises the partition's error, RetriableError when time is up.
    """
    missing = dict(timestamps)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    topics = {partition.topic for partition in missing}
    cluster.watch(topics)

    async def attempt() -> None:
        for topic in topics:
            info = cluster.metadata.topics.get(topic)
            if info is None or not info.usable:
                await cluster.refresh()
                break
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, timestamp in missing.items():
            leader = cluster.metadata.leader(partition)
            if leader is None:
                cluster.refresh_soon()
                known = cluster.metadata.topics.get(partition.topic)
                code = (known and known.error) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise error_for(code, str(partition))
            by_leader.setdefault(leader, {})[partition] = timestamp
        answers = await asyncio.gather(
            *(_ask(cluster, leader, wanted, read_committed) for leader, wanted in by_leader.items())
        )
        failure: Exception | None = None
        for answer in answers:
            for partition, outcome in answer.items():
                if isinstance(outcome, RetriableError):
                    cluster.refresh_soon()
                    failure = outcome
                elif isinstance(outcome, Exception):
                    raise outcome
                else:
                    del missing[partition]
                    if outcome is not None:
                        found[partition] = outcome
        if failure is not None:
            raise failure

    await cluster.retry(attempt, timeout_ms)
    return found


async def _ask(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | Exception | None]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, timestamp in wanted.items():
        info = cluster.metadata.partition(partition)
        row = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        row.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=-1 if info is None else info.leader_epoch,
                timestamp=timestamp,
            )
        )
    versions = _ISOLATED if read_committed else _VERSIONS
    if MAX_TIMESTAMP in wanted.values():
        versions = _WITH_MAX_TIMESTAMP
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=int(read_committed), topics=list(topics.values())
    )
    try:
        response = await cluster.call(leader, request, ListOffsetsResponse, versions=versions)
    except RetriableError as error:
        return dict.fromkeys(wanted, error)
    return {
        TopicPartition(topic.name, row.partition_index): error_for(
            row.error_code, f"{topic.name}-{row.partition_index}"
        )
        if row.error_code
        else None
        if row.offset < 0
        else OffsetAndTimestamp(
            row.offset, row.timestamp, None if row.leader_epoch < 0 else row.leader_epoch
        )
        for topic in response.topics
        for row in topic.partitions
    }
