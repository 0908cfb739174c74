"""The consumer finds the positions on brokers that respond, although other brokers do not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from oncelog_client import Consumer, Producer, TopicPartition
from oncelog_client.config import consumer_config
from oncelog_client.core.metadata import Metadata, TopicInfo
from oncelog_client.core.subscription import Subscription
from oncelog_client.errors import DisconnectedError, RetriableError
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.log_offsets import EARLIEST, ask_leaders, list_offsets
from oncelog_client.io.positions import Positions
from oncelog_client.values import Node, OffsetAndTimestamp, PartitionInfo
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog_protocol.messages.offset_fetch import OffsetFetchResponse
from tests.harness.client_reading import DEADLINE_S

LED, OFFLINE, LEADERLESS = (TopicPartition("t", number) for number in range(3))
ANSWERING, SILENT = 1, 2
START = 7
SHORT_MS = 300


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a cluster of two brokers with a topic of three partitions. The first broker leads a
    partition and responds. The second leads a partition and does not respond. The last partition
    has no leader."""
    made = Cluster(consumer_config("127.0.0.1:9", {"group_id": "g"}), auto_create=False)
    leaders = (ANSWERING, SILENT, None)
    made.metadata = Metadata(
        brokers={node: Node(node, "127.0.0.1", 9) for node in (ANSWERING, SILENT)},
        topics={
            "t": TopicInfo(
                "t",
                partitions=tuple(
                    PartitionInfo("t", n, leader, 0, (), ()) for n, leader in enumerate(leaders)
                ),
            )
        },
    )

    async def call(node: int, request: ListOffsetsRequest, *_: Any, **__: Any) -> object:
        if node == SILENT:
            raise DisconnectedError("switched off")
        rows = [
            ListOffsetsPartitionResponse(row.partition_index, offset=START, leader_epoch=0)
            for row in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", rows)])

    monkeypatch.setattr(made, "call", call)
    yield made
    await made.close()


async def test_results_of_leaders_that_respond_come_before_the_error(
    cluster: Cluster,
) -> None:
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    with pytest.raises(RetriableError):
        await ask_leaders(
            cluster,
            dict.fromkeys((LEADERLESS, OFFLINE, LED), EARLIEST),
            found.__setitem__,
            read_committed=False,
        )
    answer = found.pop(LED)
    assert answer is not None
    assert answer.offset == START
    assert not found


@pytest.fixture(params=["refuses connections", "does not respond"])
def dying(request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the second broker be silent in one of these ways. The metadata still name it as a leader.
    Return the reason for the errors of its partition."""
    monkeypatch.setattr(cluster, "refresh_soon", lambda: None)
    if request.param == "refuses connections":
        return "switched off"
    answered = cluster.call

    async def call(node: int, *arguments: Any, **named: Any) -> object:
        if node == SILENT:
            await asyncio.Event().wait()
        return await answered(node, *arguments, **named)

    monkeypatch.setattr(cluster, "call", call)
    return f"no success within {SHORT_MS} ms"


async def test_a_seek_at_a_broker_that_has_just_died_ends_at_its_deadline(
    cluster: Cluster, dying: str
) -> None:
    """The error names the partition, its leader and the reason."""
    subscription = Subscription()
    subscription.assign([OFFLINE])
    config = consumer_config("127.0.0.1:9", {})
    positions = Positions(cluster, config, subscription, lambda: None)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(RetriableError) as missed:
            await positions.find_served(subscription.chosen([]), SHORT_MS)
        assert f"{OFFLINE}, led by broker {SILENT}: " in str(missed.value)
        assert dying in str(missed.value)


async def test_a_seek_does_not_wait_for_a_broker_that_has_died_if_others_respond(
    cluster: Cluster, dying: str
) -> None:
    """Kafka's consumer seeks only in `poll` and in `position`, where each leader's response counts
    by itself. A former defect: the seek waited for `default_api_timeout_ms`, and then failed."""
    subscription = Subscription()
    subscription.assign([LED, OFFLINE])
    config = consumer_config("127.0.0.1:9", {})
    positions = Positions(cluster, config, subscription, lambda: None)
    for timeout_ms in (SHORT_MS, 60_000):
        for state in subscription.assigned():
            state.jump(None)
            state.reset = "earliest"
        async with asyncio.timeout(DEADLINE_S):
            await positions.find_served(subscription.assigned(), timeout_ms)
        assert subscription[LED].position == START
        assert subscription[OFFLINE].position is None
        # `poll` looks for the position in the background, and `position` names the partition.
        assert subscription[OFFLINE].reset == "earliest"
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(RetriableError, match=f"{OFFLINE}, led by broker {SILENT}: .*{dying}"):
            await positions.find([subscription[OFFLINE]], SHORT_MS)


async def test_a_seek_of_other_partitions_does_not_wait_for_a_broker_that_has_died(
    cluster: Cluster, dying: str
) -> None:
    subscription = Subscription()
    subscription.assign([LED, OFFLINE])
    config = consumer_config("127.0.0.1:9", {})
    positions = Positions(cluster, config, subscription, lambda: None)
    waiting = asyncio.ensure_future(positions.find([subscription[OFFLINE]], 60_000))
    async with asyncio.timeout(DEADLINE_S):
        await positions.find_served([subscription[LED]], 60_000)
    assert subscription[LED].position == START
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})


async def test_a_list_of_offsets_names_the_partition_of_a_broker_that_has_died(
    cluster: Cluster, dying: str
) -> None:
    wanted = dict.fromkeys((OFFLINE, LED), EARLIEST)
    with pytest.raises(RetriableError, match=f"{OFFLINE}, led by broker {SILENT}: .*{dying}"):
        await list_offsets(cluster, wanted, SHORT_MS, read_committed=False)


async def test_a_late_response_sets_no_position_that_was_dropped_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A former defect: the late response had no committed offset, and the consumer set the dropped
    position by `auto_offset_reset`."""
    subscription = Subscription()
    subscription.assign([LED])
    asked, answering = asyncio.Event(), asyncio.Event()

    async def call_coordinator(*_: Any, **__: Any) -> OffsetFetchResponse:
        asked.set()
        await answering.wait()
        return OffsetFetchResponse()

    monkeypatch.setattr(cluster, "call_coordinator", call_coordinator)
    news = asyncio.Event()
    config = consumer_config("127.0.0.1:9", {"group_id": "g"})
    positions = Positions(cluster, config, subscription, news.set)
    async with asyncio.timeout(DEADLINE_S):
        positions.find_soon()
        await asked.wait()
        subscription[LED].jump(None)
        answering.set()
        await news.wait()
        assert (subscription[LED].position, subscription[LED].reset) == (None, None)
        # The next request is not late and sets the position.
        news.clear()
        positions.find_soon()
        await news.wait()
        assert subscription[LED].position == START


@pytest.mark.parametrize("group", [False, True])
async def test_a_partition_without_a_leader_holds_up_no_other(
    bootstrap: str, producer: Producer, topic: str, name: str, group: bool
) -> None:
    """Partition 99 has no leader, because it does not exist. Records of partition 0 arrive."""
    for number in range(4):
        await producer.send(topic, b"%d" % number, partition=0)
    await producer.flush()
    settings: dict[str, Any] = {"auto_offset_reset": "earliest"}
    if group:
        settings["group_id"] = name
    async with Consumer(bootstrap, **settings) as consumer, asyncio.timeout(DEADLINE_S):
        await consumer.assign([TopicPartition(topic, 99), TopicPartition(topic, 0)])
        given = await consumer.poll(DEADLINE_S * 1000, max_records=2)
        assert [record.offset for record in given] == [0, 1]
        assert await consumer.position(TopicPartition(topic, 0)) == 2
        offsets = []
        async for record in consumer:
            offsets.append(record.offset)
            if len(offsets) == 2:
                break
        assert offsets == [2, 3]


async def test_a_poll_with_timeout_0_returns_records_as_well(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    """A former defect: such a poll gave the event loop no turn, so no response could arrive."""
    await (await producer.send(topic, b"v", partition=0))
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        deadline = time.monotonic() + DEADLINE_S
        # `asyncio.timeout` would not end this loop without a turn of the event loop.
        while not await consumer.poll(0):
            assert time.monotonic() < deadline
