"""Finds offsets of partitions by time, or at their start and end, with ListOffsets at the
leaders."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from oncelog_client.core.request_versions import (
    ANY_VERSION,
    LIST_OFFSETS_WITH_MAX_TIMESTAMP,
    versions_with,
)
from oncelog_client.errors import KafkaError, RetriableError, error_for
from oncelog_client.values import OffsetAndTimestamp, TopicPartition
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

from .cluster import Cluster

# Special timestamps (KIP-79, KIP-734).
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

_ISOLATED = versions_with(ListOffsetsRequest, "isolation_level")


# Called with a partition and its result: None if the log has no record at or after the timestamp.
Found = Callable[[TopicPartition, OffsetAndTimestamp | None], None]
Failed = Callable[[TopicPartition, KafkaError], None]
_Responses = dict[TopicPartition, OffsetAndTimestamp | KafkaError | None]


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    timeout_ms: float,
    *,
    read_committed: bool,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the offset of the first record at or after its timestamp (ms).

    A partition without such a record is left out. The timestamp may be LATEST, EARLIEST or
    MAX_TIMESTAMP. With `read_committed` LATEST is the last stable offset. Raises the error of a
    partition that no retry resolves, or RetriableError at the timeout.
    """
    missing = dict(timestamps)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    def note(partition: TopicPartition, response: OffsetAndTimestamp | None) -> None:
        del missing[partition]
        if response is not None:
            found[partition] = response

    async def attempt() -> None:
        await ask_leaders(cluster, missing, note, read_committed=read_committed)

    try:
        await cluster.retry(attempt, timeout_ms)
    except RetriableError as error:
        name_partitions(cluster, error, missing)
        raise
    return found


async def without_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition], timeout_ms: float
) -> set[TopicPartition]:
    """Return the partitions that exist and have no leader now. Raises RetriableError at the
    timeout."""
    wanted = set(partitions)
    if not wanted:
        return set()
    cluster.watch({partition.topic for partition in wanted})
    await cluster.retry(cluster.refresh, timeout_ms)
    return {
        partition
        for partition in wanted
        if cluster.metadata.partition(partition) is not None
        and cluster.metadata.leader(partition) is None
    }


async def list_offsets_of_each(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    timeout_ms: float,
    *,
    read_committed: bool,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """Return the same as `list_offsets`, and for a partition without a result its error. All
    partitions have the same timeout."""
    missing = dict(timestamps)
    found: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {}

    def note(partition: TopicPartition, response: OffsetAndTimestamp | None) -> None:
        del missing[partition]
        found.pop(partition, None)
        if response is not None:
            found[partition] = response

    def note_error(partition: TopicPartition, error: KafkaError) -> None:
        found[partition] = error
        if not isinstance(error, RetriableError):
            del missing[partition]

    async def attempt() -> None:
        try:
            await ask_leaders(
                cluster, dict(missing), note, read_committed=read_committed, failed=note_error
            )
        except KafkaError as error:
            if not missing:
                return
            # An error that no retry resolves is the result of its partition. Retry the others.
            left = (found.get(partition) for partition in missing)
            raise next((each for each in left if isinstance(each, KafkaError)), error) from None

    try:
        await cluster.retry(attempt, timeout_ms)
    except KafkaError as error:
        found |= {partition: found.get(partition, error) for partition in missing}
    return found


def name_partitions(
    cluster: Cluster, error: RetriableError, missing: Iterable[TopicPartition]
) -> None:
    """Add a partition without a result to the message of an error, unless the message names one. A
    broker that has just died leads its partitions until the controller notices, so that the error
    is that of the connection."""
    partitions = sorted(missing)
    named = (rf"(?<![\w.-]){re.escape(str(partition))}(?!\d)" for partition in partitions)
    if not partitions or any(re.search(name, error.message) for name in named):
        return
    text = str(partitions[0])
    leader = cluster.metadata.leader(partitions[0])
    if leader is not None:
        text += f", led by broker {leader}"
    if len(partitions) > 1:
        text += f" (and {len(partitions) - 1} more partitions)"
    error.reword(f"{text}: {error.message}")


async def ask_leaders(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    found: Found,
    *,
    read_committed: bool,
    or_end: bool = False,
    failed: Failed | None = None,
) -> None:
    """Send a request to all known leaders at once, and call `found` with each result as it arrives,
    and `failed` with the error of each partition. With `or_end`, the result of a log without a
    record at or after the timestamp is its end.

    If a request or a partition failed, raise its error at the end. Of several errors, raise one
    that no retry resolves rather than a RetriableError.
    """
    await _find_topics(cluster, {partition.topic for partition in timestamps})
    failures: list[KafkaError] = []

    def note_failure(error: KafkaError, partitions: Iterable[TopicPartition]) -> None:
        failures.append(error)
        if failed is not None:
            for partition in partitions:
                failed(partition, error)

    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for partition, timestamp in timestamps.items():
        leader = cluster.metadata.leader(partition)
        if leader is None:
            note_failure(cluster.metadata.no_leader(partition), [partition])
        else:
            by_leader.setdefault(leader, {})[partition] = timestamp

    async def ask(leader: int, wanted: Mapping[TopicPartition, int]) -> None:
        try:
            # The ends come first. A record that is appended between the two requests is after this
            # end, so it is not skipped.
            timed = [place for place, timestamp in wanted.items() if or_end and timestamp >= 0]
            at_end = dict.fromkeys(timed, LATEST)
            ends = await _ask(cluster, leader, at_end, read_committed) if timed else {}
            responses = await _ask(cluster, leader, wanted, read_committed)
        except KafkaError as error:
            note_failure(error, wanted)
            return
        for partition, outcome in responses.items():
            if outcome is None:
                outcome = ends.get(partition)
            if isinstance(outcome, KafkaError):
                note_failure(outcome, [partition] if partition in wanted else ())
            elif partition in wanted:
                found(partition, outcome)

    await asyncio.gather(*(ask(leader, wanted) for leader, wanted in by_leader.items()))
    if any(isinstance(error, RetriableError) for error in failures):
        cluster.refresh_soon()
    for error in sorted(failures, key=lambda error: isinstance(error, RetriableError)):
        raise error


async def _find_topics(cluster: Cluster, topics: set[str]) -> None:
    cluster.watch(topics)
    known = [cluster.metadata.topics.get(topic) for topic in topics]
    if not all(info is not None and info.usable for info in known):
        await cluster.refresh()


async def _ask(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> _Responses:
    """Return one leader's results. Raises KafkaError if the leader does not respond."""
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
    versions = _ISOLATED if read_committed else ANY_VERSION
    if MAX_TIMESTAMP in wanted.values():
        versions = LIST_OFFSETS_WITH_MAX_TIMESTAMP
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=int(read_committed), topics=list(topics.values())
    )
    response = await cluster.call(leader, request, ListOffsetsResponse, versions=versions)
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
