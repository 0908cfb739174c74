"""A consumer of oncelog's client and a consumer of librdkafka are in one group. Either can be the
leader, and each gets its share of the partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import confluent_kafka
import pytest

from oncelog_client import Consumer
from tests.harness.client_reading import poll_until

STRATEGIES = ["range", "roundrobin", "cooperative-sticky"]


@asynccontextmanager
async def librdkafka(
    bootstrap: str, topic: str, group: str, strategy: str
) -> AsyncIterator[set[int]]:
    """Run a consumer of librdkafka in its own thread. Yield a set that always has the current
    partitions of this consumer."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe([topic])
    held: set[int] = set()
    stopped = False

    def poll() -> None:
        while not stopped:
            consumer.poll(0.05)
            now = {row.partition for row in consumer.assignment()}
            held.difference_update(held - now)
            held.update(now)

    polling = asyncio.create_task(asyncio.to_thread(poll))
    try:
        yield held
    finally:
        stopped = True
        await polling
        await asyncio.to_thread(consumer.close)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_each_consumer_has_its_share(
    bootstrap: str, topic: str, name: str, strategy: Any, first: str
) -> None:
    settings: dict[str, Any] = {
        "group_id": name,
        "partition_assignment_strategy": [strategy],
        "heartbeat_interval_ms": 100,
    }
    async with Consumer(bootstrap, **settings) as ours:
        await ours.subscribe([topic])
        if first == "ours":
            await poll_until([ours], lambda: len(ours.assignment()) == 2)
        async with librdkafka(bootstrap, topic, name, strategy) as theirs:

            def shared() -> bool:
                # One condition covers both, because the two members learn of a rebalance at
                # different times.
                mine = {tp.partition for tp in ours.assignment()}
                return len(mine) == len(theirs) == 1 and mine | theirs == {0, 1}

            await poll_until([ours], shared)
