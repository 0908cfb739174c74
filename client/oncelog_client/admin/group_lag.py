"""The lag of a consumer group, by the last stable offset, and the records that open transactions
hold back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from oncelog_client.core.request_versions import versions_with
from oncelog_client.errors import RetriableError, check, error_for
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.log_offsets import EARLIEST, LATEST, list_offsets
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_READ_COMMITTED = 1
_VERSIONS = versions_with(ListOffsetsRequest, "isolation_level")


class PartitionLag(NamedTuple):
    """The lag of a group in one partition. oncelog counts records. `lag` is the number of records
    that a read_committed reader can read now. `held_back` is the number of records that open
    transactions hold back. Markers and aborted records do not count. Other brokers do not count
    records, and oncelog counts at most about a million batches for one request. Without a count,
    `is_exact` is false, and `lag` and `held_back` are differences of offsets. These differences are
    at least the numbers of records. In a partition without a leader, only the committed offset is
    known, and the other numbers are None."""

    committed_offset: int
    last_stable_offset: int | None
    high_watermark: int | None
    lag: int | None
    held_back: int | None
    is_exact: bool


async def group_lag(
    cluster: Cluster, committed: Mapping[TopicPartition, int], timeout_ms: float
) -> dict[TopicPartition, PartitionLag]:
    """Return the lag behind each committed offset. Partitions that do not exist any more are left
    out. A partition without a leader is not waited for, as in ConsumerGroupCommand
    (filterNoneLeaderPartitions). Raises the first error of a partition, or RetriableError at the
    timeout."""
    existing = await _existing(cluster, committed, timeout_ms)
    led = {
        partition: offset
        for partition, offset in existing.items()
        if cluster.metadata.leader(partition) is not None
    }
    starts, ends, counted = await asyncio.gather(
        list_offsets(cluster, dict.fromkeys(led, EARLIEST), timeout_ms, read_committed=False),
        list_offsets(cluster, dict.fromkeys(led, LATEST), timeout_ms, read_committed=False),
        cluster.retry(lambda: _counted(cluster, led), timeout_ms),
    )
    found = {}
    for partition, offset in existing.items():
        if partition not in led:
            found[partition] = PartitionLag(offset, None, None, None, None, is_exact=False)
            continue
        row = counted[partition]
        stable, end = row.offset, max(ends[partition].offset, row.offset)
        first = max(offset, starts[partition].offset)
        is_exact = row.readable_records >= 0
        lag = row.readable_records if is_exact else max(stable - first, 0)
        held_back = row.held_back_records if is_exact else max(end - max(first, stable), 0)
        found[partition] = PartitionLag(offset, stable, end, lag, held_back, is_exact)
    return found


async def _existing(
    cluster: Cluster, committed: Mapping[TopicPartition, int], timeout_ms: float
) -> dict[TopicPartition, int]:
    """Return the offsets of existing partitions. The offsets of a deleted topic may outlive the
    topic for a while."""
    cluster.watch({partition.topic for partition in committed})
    await cluster.retry(cluster.refresh, timeout_ms)
    return {
        partition: offset
        for partition, offset in committed.items()
        if cluster.metadata.partition(partition) is not None
    }


async def _counted(
    cluster: Cluster, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    """Return the last stable offset and the counts of records of each partition, from one request
    to each leader. Raises RetriableError if a leader is unknown."""
    by_leader: dict[int, dict[str, ListOffsetsTopic]] = {}
    for place, offset in committed.items():
        leader = cluster.metadata.leader(place)
        if leader is None:
            cluster.refresh_soon()
            raise cluster.metadata.no_leader(place)
        topics = by_leader.setdefault(leader, {})
        asked = topics.setdefault(place.topic, ListOffsetsTopic(name=place.topic))
        asked.partitions.append(
            ListOffsetsPartition(place.partition, timestamp=LATEST, count_from=offset)
        )

    async def ask(leader: int, topics: dict[str, ListOffsetsTopic]) -> ListOffsetsResponse:
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=_READ_COMMITTED, topics=list(topics.values())
        )
        return await cluster.call(leader, request, ListOffsetsResponse, versions=_VERSIONS)

    found: dict[TopicPartition, ListOffsetsPartitionResponse] = {}
    try:
        for response in await asyncio.gather(*(ask(*item) for item in by_leader.items())):
            for answered in response.topics:
                for row in answered.partitions:
                    check(row.error_code, f"{answered.name}-{row.partition_index}")
                    found[TopicPartition(answered.name, row.partition_index)] = row
    except RetriableError:
        cluster.refresh_soon()
        raise
    for missing in sorted(committed.keys() - found.keys()):
        message = f"the ListOffsets response has no row for {missing}"
        raise error_for(ErrorCode.CORRUPT_MESSAGE, message)
    return found
