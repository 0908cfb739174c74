"""What a fetch asks for, and what its answer moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncelog_client.config import consumer_config
from oncelog_client.core.metadata import Metadata, TopicInfo
from oncelog_client.core.subscription import Subscription
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.fetcher import Fetcher
from oncelog_client.values import PartitionInfo, TopicPartition
from oncelog_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from oncelog_protocol.records.batch import build_batch, patch_offsets
from oncelog_protocol.records.record import NewRecord
from tests.client.reading import DEADLINE_S

TP = TopicPartition("t", 0)


class Leader:
    """The connection to a broker that answers when it is told to."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[tuple[FetchRequest, asyncio.Future[Any]]] = asyncio.Queue()

    def start(self, request: FetchRequest, *, timeout_ms: float) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((request, answer))
        return answer

    async def asked(self) -> tuple[FetchPartition, asyncio.Future[Any]]:
        """The next request for the only partition, and where its answer belongs."""
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


@pytest.fixture
async def reader(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Any, ...]]:
    """A subscription at offset 0, its fetcher, the leader it asks."""
    config = consumer_config("127.0.0.1:9", {"retry_backoff_ms": 1})
    cluster, leader, subscription = Cluster(config, auto_create=False), Leader(), Subscription()
    partitions = (PartitionInfo("t", 0, 1, 0, (1,), (1,)),)
    cluster.metadata = Metadata(topics={"t": TopicInfo("t", partitions=partitions)})
    monkeypatch.setattr(cluster, "ready_connection", lambda *_: leader)
    subscription.assign([TP])
    subscription[TP].jump(0)
    fetcher = Fetcher(cluster, config, subscription, lambda: None)
    yield subscription, fetcher, leader
    fetcher.close()
    await cluster.close()


async def test_a_fetch_says_in_which_epoch_was_written_what_is_before_it(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    _, fetcher, leader = reader
    fetcher.pump()
    asked, told = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (0, -1)
    told.set_result(answer(records=batch(0, 3, epoch=1) + batch(3, 3, epoch=2)))
    asked, told = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 2)
    assert len(fetcher.records.take(3)) == 3
    fetcher.records.take(10)
    told.set_result(answer())
    asked, _ = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 2)


async def test_what_was_only_fetched_ahead_is_dropped_where_the_log_has_lost_it(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    subscription, fetcher, leader = reader
    fetcher.pump()
    _, told = await leader.asked()
    told.set_result(answer(records=batch(0, 3, epoch=1) + batch(3, 3, epoch=1)))
    _, told = await leader.asked()
    assert [record.offset for record in fetcher.records.take(3)] == [0, 1, 2]
    told.set_result(answer(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3)))
    asked, told = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (3, 1)
    assert fetcher.records.take(10) == []
    told.set_result(answer(records=batch(3, 2, epoch=2)))
    await leader.asked()
    assert [record.offset for record in fetcher.records.take(10)] == [3, 4]
    assert subscription[TP].position == 5


async def test_an_epoch_that_the_log_does_not_know_is_left_behind(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    """Where it ends is beyond the position: there is nothing to go back to."""
    subscription, fetcher, leader = reader
    subscription[TP].jump(6, 5)
    fetcher.pump()
    _, told = await leader.asked()
    told.set_result(answer(diverging_epoch=EpochEndOffset(epoch=3, end_offset=9)))
    asked, _ = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 3)
