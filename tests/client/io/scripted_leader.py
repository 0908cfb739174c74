"""A leader that responds to a fetch only when the test sets the response, and a fetcher that reads
from this leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from oncelog_client.config import consumer_config
from oncelog_client.core.metadata import Metadata, TopicInfo
from oncelog_client.core.offset_reset import OffsetReset
from oncelog_client.core.subscription import Subscription
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.fetcher import Fetcher
from oncelog_client.values import PartitionInfo, TopicPartition
from oncelog_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from oncelog_protocol.records.batch import build_batch, patch_offsets
from oncelog_protocol.records.record import NewRecord
from tests.harness.client_reading import DEADLINE_S

TP = TopicPartition("t", 0)


class Leader:
    """The connection to the leader of the only partition."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[tuple[FetchRequest, asyncio.Future[Any]]] = asyncio.Queue()

    def start(self, request: FetchRequest, *, timeout_ms: float) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((request, answer))
        return answer

    async def asked(self) -> tuple[FetchPartition, asyncio.Future[Any]]:
        """Wait for the next request. Return its row of the only partition, and the future of its
        response."""
        async with asyncio.timeout(DEADLINE_S):
            request, answer = await self._asked.get()
        return request.topics[0].partitions[0], answer


def answer(**data: Any) -> FetchResponse:
    row = PartitionData(partition_index=0, **data)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])


def batch(base: int, count: int, epoch: int) -> bytearray:
    made = build_batch([NewRecord(base + n, b"k", b"v") for n in range(count)], base_offset=base)
    patch_offsets(made, 0, base, epoch)
    return made


@asynccontextmanager
async def reading(
    auto_offset_reset: OffsetReset = "latest", retry_backoff_ms: int = 1
) -> AsyncIterator[tuple[Subscription, Fetcher, Leader]]:
    """A subscription at offset 0, its fetcher, and the leader that it reads from."""
    config = consumer_config(
        "127.0.0.1:9",
        {"retry_backoff_ms": retry_backoff_ms, "auto_offset_reset": auto_offset_reset},
    )
    cluster, leader, subscription = Cluster(config, auto_create=False), Leader(), Subscription()
    partitions = (PartitionInfo("t", 0, 1, 0, (1,), (1,)),)
    cluster.metadata = Metadata(topics={"t": TopicInfo("t", partitions=partitions)})
    subscription.assign([TP])
    subscription[TP].jump(0)
    fetcher = Fetcher(cluster, config, subscription, lambda: None)
    with patch.object(cluster, "ready_connection", lambda *_: leader):
        yield subscription, fetcher, leader
        fetcher.close()
    await cluster.close()
