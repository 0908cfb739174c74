"""A broker, a steady input, and processes that copy the input to an output topic (copiers). All of
them end with the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.copiers.running import Copiers, Feed
from tests.copiers.work import Work
from tests.harness.broker import Oncelog

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), SETTINGS) as running:
        yield running


@pytest_asyncio.fixture
async def feed(broker: Oncelog) -> AsyncIterator[Feed]:
    feed = Feed(Work(broker.address, "copy", -1))
    await feed.create()
    feed.feeding = asyncio.create_task(feed.run())
    yield feed
    feed.feeding.cancel()
    await asyncio.gather(feed.feeding, return_exceptions=True)


@pytest.fixture
def copiers(broker: Oncelog) -> Iterator[Copiers]:
    running = Copiers(broker.address, "copy")
    yield running
    running.close()
