"""A call that changes the subscription takes effect, or changes nothing, if it is cancelled, if it
is refused, or if a listener raises an exception."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from oncelog_client import Consumer, IllegalStateError, RebalanceListener, TopicPartition
from oncelog_client.core.subscription import TopicPattern
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.internal.consumer_protocol import decode_subscription
from tests.client.scripted_broker import DROP, ScriptedBroker, messages, simulated

BROKER: Final = "broker:9092"
OTHER: Final = "u"


class Listener(RebalanceListener):
    """Notes the revoked partitions, and raises `error` if it is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.revoked: list[TopicPartition] = []

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.revoked += partitions
        if self.error is not None:
            raise self.error


class Broker(ScriptedBroker):
    """A broker with the topics `t` and `u`. Requests of the APIs in `dropped` get no response."""

    def __init__(self) -> None:
        super().__init__(self._drop)
        self.dropped: set[ApiKey] = set()

    def _drop(self, api: ApiKey, request: Any) -> Any:
        if api in self.dropped:
            return DROP
        if api is ApiKey.METADATA and request.topics is None:
            topics = [messages(api).MetadataRequestTopic(name=name) for name in ("t", OTHER)]
            return self.respond(api, 9, messages(api).MetadataRequest(topics=topics))
        return None

    def joined_topics(self) -> list[list[str]]:
        """Return the topics of each JoinGroup request."""
        return [
            decode_subscription(request.protocols[0].metadata).topics
            for _, api, request in self.requests
            if api is ApiKey.JOIN_GROUP
        ]


class SlowBroker(Broker):
    """Responses come in the order of the requests, `delay_s` simulated seconds later."""

    delay_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._last_s = 0.0

    def _response_time(self, transport: Any, time_s: float) -> float:
        self._last_s = max(time_s + self.delay_s, self._last_s + 0.001)
        return self._last_s


async def cancelled(call: Any) -> None:
    """Cancel a call that gets no response in time, after a simulated second."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await call


@pytest.mark.parametrize(
    ("before", "after"),
    [("t", OTHER), (re.compile("t"), re.compile(OTHER))],
    ids=["topics", "pattern"],
)
def test_a_cancelled_subscribe_rejoins_at_the_next_poll(
    before: str | TopicPattern, after: str | TopicPattern
) -> None:
    broker = Broker()

    async def scenario() -> None:
        async with Consumer(BROKER, group_id="g") as consumer:
            await consumer.subscribe(before)
            await consumer.poll(1000)
            broker.dropped = {ApiKey.METADATA}
            await cancelled(consumer.subscribe(after))
            broker.dropped = set()
            await consumer.poll(1000)
            assert consumer.subscription() == {OTHER}
            assert broker.joined_topics() == [["t"], [OTHER]]
            assert consumer.assignment() == {TopicPartition(OTHER, 0)}

    simulated(broker, scenario)


def test_a_cancelled_subscribe_to_a_first_pattern_finds_its_topics() -> None:
    """The topics are unknown when the call is cancelled."""
    broker = SlowBroker()

    async def scenario() -> None:
        async with Consumer(BROKER, group_id="g") as consumer:
            broker.delay_s = 5
            await cancelled(consumer.subscribe(re.compile("t|u")))
            broker.delay_s = 0
            await consumer.poll(60_000)
            assert consumer.subscription() == {"t", OTHER}
            assert broker.joined_topics()[-1] == ["t", OTHER]

    simulated(broker, scenario)


def test_a_refused_subscribe_keeps_the_earlier_listener() -> None:
    async def scenario() -> None:
        earlier, refused = Listener(), Listener()
        async with Consumer(BROKER, group_id="g") as consumer:
            await consumer.subscribe("t", earlier)
            await consumer.poll(1000)
            with pytest.raises(IllegalStateError):
                await consumer.subscribe(re.compile("u"), refused)
        assert earlier.revoked == [TopicPartition("t", 0)]
        assert not refused.revoked

    simulated(Broker(), scenario)


def test_a_subscribe_without_topics_gives_the_partitions_back_to_the_earlier_listener() -> None:
    """As in the Java client, it is a call of `unsubscribe`."""

    async def scenario() -> None:
        earlier, late = Listener(), Listener()
        async with Consumer(BROKER, group_id="g") as consumer:
            await consumer.subscribe("t", earlier)
            await consumer.poll(1000)
            await consumer.subscribe([], late)
            assert not consumer.subscription()
            assert earlier.revoked == [TopicPartition("t", 0)]
            assert not late.revoked

    simulated(Broker(), scenario)


def test_a_cancelled_unsubscribe_leaves_the_group_without_a_subscription() -> None:
    """The member has left. A poll that joined again would read what the application gave up."""
    broker = Broker()

    async def scenario() -> None:
        async with Consumer(BROKER, group_id="g", enable_auto_commit=True) as consumer:
            await consumer.subscribe("t")
            await consumer.poll(1000)
            broker.dropped = {ApiKey.OFFSET_COMMIT}
            await cancelled(consumer.unsubscribe())
            assert broker.counts[ApiKey.LEAVE_GROUP] == 1
            assert not consumer.subscription()
            assert not consumer.assignment()
            with pytest.raises(IllegalStateError, match="nothing to read"):
                await consumer.poll(1000)

    simulated(broker, scenario)


def test_an_unsubscribe_takes_effect_although_a_listener_raises_an_exception() -> None:
    broker = Broker()

    async def scenario() -> None:
        async with Consumer(BROKER, group_id="g") as consumer:
            await consumer.subscribe("t", Listener(ZeroDivisionError("of the listener")))
            await consumer.poll(1000)
            with pytest.raises(ZeroDivisionError):
                await consumer.unsubscribe()
            assert broker.counts[ApiKey.LEAVE_GROUP] == 1
            assert not consumer.subscription()

    simulated(broker, scenario)


@pytest.mark.parametrize("turns", range(1, 4))
def test_a_consumer_joins_again_after_an_unsubscribe_that_is_cancelled_in_a_rebalance(
    turns: int,
) -> None:
    """A former defect: the next poll raised the CancelledError of the earlier rebalance."""
    broker = Broker()

    async def scenario() -> None:
        async with Consumer(BROKER, group_id="g") as consumer:
            await consumer.subscribe("t")
            broker.dropped = {ApiKey.JOIN_GROUP}
            await consumer.poll(1000)
            leaving = asyncio.create_task(consumer.unsubscribe())
            for _ in range(turns):
                await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait({leaving})
            broker.dropped = set()
            await consumer.subscribe("t")
            await consumer.poll(1000)
            assert consumer.assignment() == {TopicPartition("t", 0)}

    simulated(broker, scenario)
