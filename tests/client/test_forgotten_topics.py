"""The topics that a consumer requests after its subscription has changed. The tests run in
simulated time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog_client import Consumer, TopicPartition
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated

SERVER = "broker:9092"
PLACE, OTHER = TopicPartition(TOPIC, 0), TopicPartition("u", 0)

Change = Callable[[Consumer], Awaitable[object]]


def later_requests(broker: ScriptedBroker, before: Change, change: Change) -> set[str]:
    """Return the topics of the Metadata requests in the minute after `before` and `change`. A `*`
    stands for all topics."""

    async def scenario() -> None:
        async with Consumer(SERVER, group_id="g", metadata_max_age_ms=1_000) as consumer:
            await before(consumer)
            await consumer.poll(1_000)
            await change(consumer)
            broker.requests.clear()
            await asyncio.sleep(60)
            # The consumer refreshes its metadata nevertheless.
            assert broker.counts[ApiKey.METADATA] > 50

    simulated(broker, scenario)
    asked: list[Any] = [request for _, api, request in broker.requests if api is ApiKey.METADATA]
    return {
        name
        for request in asked
        for name in (["*"] if request.topics is None else [row.name for row in request.topics])
    }


async def _to_topic(consumer: Consumer) -> None:
    await consumer.unsubscribe()
    await consumer.subscribe(OTHER.topic)


CHANGES: dict[str, Change] = {
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "no topics": lambda consumer: consumer.subscribe([]),
    "other topic": _to_topic,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("subscribed", [TOPIC, re.compile("t.*")], ids=["topic", "pattern"])
def test_a_topic_is_not_requested_after_its_subscription(
    subscribed: str | re.Pattern[str], change: str
) -> None:
    """A former defect: every later refresh named each topic that was ever subscribed to, and so
    created a topic that was deleted meanwhile. After a pattern it listed all topics."""
    names = later_requests(
        ScriptedBroker(), lambda consumer: consumer.subscribe(subscribed), CHANGES[change]
    )
    assert names == ({OTHER.topic} if change == "other topic" else set())


def test_a_topic_is_not_requested_after_the_next_assign() -> None:
    names = later_requests(
        ScriptedBroker(),
        lambda consumer: consumer.assign([PLACE]),
        lambda consumer: consumer.assign([OTHER]),
    )
    assert names == {OTHER.topic}


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.end_offsets([OTHER]),
        lambda consumer: consumer.partitions_for(OTHER.topic),
    ],
    ids=["end_offsets", "partitions_for"],
)
def test_a_topic_of_a_single_call_is_not_requested_after_the_call(call: Change) -> None:
    names = later_requests(ScriptedBroker(), lambda consumer: consumer.subscribe(TOPIC), call)
    assert names == {TOPIC}


def test_a_forgotten_topic_is_looked_up_again_after_the_next_refresh() -> None:
    """Otherwise its partitions in the metadata would become stale."""
    broker = ScriptedBroker()

    async def scenario() -> None:
        async with Consumer(SERVER, metadata_max_age_ms=1_000) as consumer:
            for _ in range(2):
                broker.requests.clear()
                await consumer.partitions_for(TOPIC)
                assert broker.counts[ApiKey.METADATA] == 1
                await consumer.partitions_for(TOPIC)
                assert broker.counts[ApiKey.METADATA] == 1
                await asyncio.sleep(3)

    simulated(broker, scenario)
