"""Deletes the records before an offset."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from oncelog_client.errors import RetriableError, error_for
from oncelog_client.io.cluster import Cluster
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
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
