"""A consumer that waits for records in `poll` stays in its group, however long it waits. A consumer
between two polls leaves after `max_poll_interval_ms` (KIP-62; Java's `pollHeartbeat`)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import pytest

from oncelog_client import Consumer
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import ScriptedBroker, simulated

BROKER: Final = "broker:9092"
MAX_POLL_INTERVAL_S: Final = 60.0
LONG_S: Final = 10 * MAX_POLL_INTERVAL_S

Waiting = Callable[[Consumer], Awaitable[object]]


async def poll(consumer: Consumer) -> None:
    await consumer.poll(LONG_S * 1000)


async def endless_poll(consumer: Consumer) -> None:
    await consumer.poll(math.inf)


async def iteration(consumer: Consumer) -> None:
    async for _ in consumer:
        raise AssertionError("the topic has no records")


def group_consumer() -> Consumer:
    """Return a consumer without automatic commits: their intervals would end the waits."""
    return Consumer(
        BROKER,
        group_id="g",
        enable_auto_commit=False,
        max_poll_interval_ms=int(MAX_POLL_INTERVAL_S * 1000),
    )


async def wait_for(consumer: Consumer, waiting: Waiting, wait_s: float) -> None:
    """Let the consumer wait in `waiting` for `wait_s` simulated seconds, then cancel the call."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await waiting(consumer)


@pytest.mark.parametrize("waiting", [poll, endless_poll, iteration])
def test_a_consumer_that_waits_in_poll_stays_in_its_group(waiting: Waiting) -> None:
    broker = ScriptedBroker()

    async def scenario() -> None:
        async with group_consumer() as consumer:
            await consumer.subscribe("t")
            await wait_for(consumer, waiting, LONG_S - 1)
            assert broker.counts[ApiKey.LEAVE_GROUP] == 0
            assert broker.counts[ApiKey.JOIN_GROUP] == 1
            assert consumer.assignment()

    simulated(broker, scenario)


def test_the_poll_interval_begins_at_the_end_of_a_cancelled_poll() -> None:
    broker = ScriptedBroker()

    async def scenario() -> None:
        async with group_consumer() as consumer:
            await consumer.subscribe("t")
            await wait_for(consumer, endless_poll, LONG_S)
            await asyncio.sleep(MAX_POLL_INTERVAL_S - 5)  # simulated: the application is busy
            assert broker.counts[ApiKey.LEAVE_GROUP] == 0
            await asyncio.sleep(10)  # simulated: now it has been busy for longer than allowed
            assert broker.counts[ApiKey.LEAVE_GROUP] == 1
            await consumer.poll(1000)
            assert broker.counts[ApiKey.JOIN_GROUP] == 2
            assert consumer.assignment()

    simulated(broker, scenario)
