"""Deletes the records before an offset."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

from oncelog_client.errors import KafkaError, RetriableError, error_for
from oncelog_client.io.cluster import Cluster
from oncelog_client.values import TopicPartition
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

# The offset that stands for the high watermark (KIP-107).
ALL_RECORDS = -1


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Delete the records before an offset of each partition. Return the new starts of the logs.
    Raises the error of a partition that no retry resolves, or RetriableError at the timeout."""
    missing = dict(before)
    low_watermarks: dict[TopicPartition, int] = {}
    cluster.watch(partition.topic for partition in missing)

    async def attempt() -> None:
        results = await _at_leaders(cluster, missing, timeout_ms)
        errors: list[KafkaError] = []
        for partition, result in results.items():
            if isinstance(result, KafkaError):
                errors.append(result)
            else:
                low_watermarks[partition] = result
                del missing[partition]
        for error in sorted(errors, key=lambda error: isinstance(error, RetriableError)):
            raise error

    await cluster.retry(attempt, timeout_ms)
    return low_watermarks


async def delete_records_of_each(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int | KafkaError]:
    """Delete the records before an offset of each partition. Return for each the new start of its
    log, or its error. All partitions have the same timeout."""
    missing = dict(before)
    results: dict[TopicPartition, int | KafkaError] = {}
    cluster.watch(partition.topic for partition in missing)

    async def attempt() -> None:
        results.update(await _at_leaders(cluster, missing, timeout_ms))
        for partition in [*missing]:
            result = results[partition]
            if not isinstance(result, RetriableError):
                del missing[partition]
        for partition in missing:
            raise cast("RetriableError", results[partition])

    try:
        await cluster.retry(attempt, timeout_ms)
    except KafkaError as error:
        results = {partition: results.get(partition, error) for partition in before}
    return {partition: results[partition] for partition in before}


async def _at_leaders(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int | KafkaError]:
    """Send a request to each leader. Return the new start, or the error, of each partition."""
    await cluster.refresh()
    results: dict[TopicPartition, int | KafkaError] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for partition, offset in before.items():
        leader = cluster.metadata.leader(partition)
        if leader is None:
            results[partition] = cluster.metadata.no_leader(partition)
        else:
            by_leader.setdefault(leader, {})[partition] = offset

    async def ask(leader: int, rows: Mapping[TopicPartition, int]) -> None:
        try:
            response = await cluster.call(
                leader, _delete_records(rows, timeout_ms), DeleteRecordsResponse
            )
        except KafkaError as error:
            results.update(dict.fromkeys(rows, error))
            return
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if partition in rows:
                    results[partition] = (
                        error_for(row.error_code, str(partition))
                        if row.error_code
                        else row.low_watermark
                    )

    await asyncio.gather(*(ask(leader, rows) for leader, rows in by_leader.items()))
    return results


def _delete_records(rows: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (topic, partition), offset in rows.items():
        topics.setdefault(topic, DeleteRecordsTopic(name=topic)).partitions.append(
            DeleteRecordsPartition(partition_index=partition, offset=offset)
        )
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)
