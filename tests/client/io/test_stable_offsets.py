"""A read_committed member gets no position while its pending offset belongs to an open transaction
(KIP-447)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_client import Consumer, TopicPartition
from oncelog_client.config import IsolationLevel
from oncelog_client.errors import UnsupportedVersionError
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import TOPIC, ScriptedBroker, messages, simulated

PLACE = TopicPartition(TOPIC, 0)
BEFORE, STAGED = 3, 9
# Long enough for many attempts, in simulated time.
UNDECIDED_S = 20.0


class Coordinator:
    """A group coordinator that returns UNSTABLE_OFFSET_COMMIT while a transaction is open."""

    def __init__(self) -> None:
        self.is_undecided = True
        self.committed = BEFORE

    def script(self, api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.OFFSET_FETCH:
            return None
        m = messages(ApiKey.OFFSET_FETCH)
        unstable = self.is_undecided and request.require_stable
        row = m.OffsetFetchResponsePartitions(
            0,
            -1 if unstable else self.committed,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else 0,
        )
        return m.OffsetFetchResponse(
            groups=[
                m.OffsetFetchResponseGroup(
                    "g", topics=[m.OffsetFetchResponseTopics(TOPIC, partitions=[row])]
                )
            ]
        )

    def decide(self, *, committed: bool) -> None:
        self.is_undecided = False
        if committed:
            self.committed = STAGED


def fetched_from(broker: ScriptedBroker) -> set[int]:
    """Return all offsets from which the consumer has fetched."""
    return {
        row.fetch_offset
        for _, api, request in broker.requests
        if api is ApiKey.FETCH
        for topic in request.topics
        for row in topic.partitions
    }


async def start(isolation: IsolationLevel, *, subscribes: bool) -> Consumer:
    consumer = Consumer(
        "broker:9092", group_id="g", isolation_level=isolation, auto_offset_reset="earliest"
    )
    await consumer.start()
    if subscribes:
        await consumer.subscribe([TOPIC])
    else:
        await consumer.assign([PLACE])
    return consumer


async def poll_for(consumer: Consumer, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        assert await consumer.poll(1_000) == []


@pytest.mark.parametrize("subscribes", [True, False], ids=["a member", "assigned by hand"])
@pytest.mark.parametrize(("committed", "expected"), [(True, STAGED), (False, BEFORE)])
def test_KIP_447_a_consumer_has_no_position_until_the_pending_offset_is_decided(
    subscribes: bool, committed: bool, expected: int
) -> None:
    coordinator = Coordinator()
    broker = ScriptedBroker(coordinator.script)

    async def scenario() -> None:
        consumer = await start("read_committed", subscribes=subscribes)
        await poll_for(consumer, UNDECIDED_S)
        asked = broker.counts[ApiKey.OFFSET_FETCH]
        assert asked > 3
        # The consumer backs off, so the coordinator gets few requests.
        assert asked < UNDECIDED_S * 20
        assert fetched_from(broker) == set()
        coordinator.decide(committed=committed)
        await poll_for(consumer, 5.0)
        assert await consumer.position(PLACE) == expected
        assert fetched_from(broker) == {expected}
        await consumer.close()

    simulated(broker, scenario)


def test_a_read_uncommitted_member_continues_at_the_offset_before_the_transaction() -> None:
    broker = ScriptedBroker(Coordinator().script)

    async def scenario() -> None:
        consumer = await start("read_uncommitted", subscribes=True)
        await poll_for(consumer, 5.0)
        assert fetched_from(broker) == {BEFORE}
        await consumer.close()

    simulated(broker, scenario)


def test_a_coordinator_that_does_not_know_of_pending_offsets_gives_no_position() -> None:
    """OffsetFetch v6 cannot require stable offsets. So the client raises an error: a pending
    offset could replace the committed offset at once."""

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.API_VERSIONS:
            return None
        response = broker.respond(api, 4, request)
        for row in response.api_keys:
            if row.api_key == ApiKey.OFFSET_FETCH:
                row.max_version = 6
        return response

    broker = ScriptedBroker(script)

    async def scenario() -> None:
        consumer = await start("read_committed", subscribes=False)
        with pytest.raises(UnsupportedVersionError, match="OffsetFetch"):
            await consumer.poll(60_000)
        assert fetched_from(broker) == set()
        await consumer.close()

    simulated(broker, scenario)
