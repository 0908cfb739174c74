"""The topics of oncelog.create.topics are created at a start, also if the metadata store does not
respond at first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from oncelog_server.metadata.store_wait import StoreSilent, StoreWait
from oncelog_server.settings.model import Settings
from oncelog_server.startup.first_topics import create_first_topics
from tests.server.metadata.brokers import Brokers, until


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    brokers = Brokers()
    yield brokers
    await brokers.stop()


def settings_of(timeout_ms: int) -> Settings:
    return Settings(
        oncelog_create_topics=("a:2:1", "b:1:1"),
        oncelog_etcd_endpoints=("http://127.0.0.1:1",),
        initial_broker_registration_timeout_ms=timeout_ms,
    )


async def test_topics_are_created_when_the_store_responds_again(brokers: Brokers) -> None:
    metadata = await brokers.start(1)
    settings = settings_of(60_000)
    brokers.store.is_cut_off = True
    with structlog.testing.capture_logs() as logged:
        creating = asyncio.create_task(create_first_topics(metadata, settings, StoreWait(settings)))
        await until(lambda: any("waits" in event["event"] for event in logged))
        brokers.store.is_cut_off = False
        assert await creating == ""
    assert set(metadata.image.topics) == {"a", "b"}
    # A later start finds the topics.
    assert await create_first_topics(metadata, settings, StoreWait(settings)) == ""


async def test_a_silent_store_ends_the_start(brokers: Brokers) -> None:
    metadata = await brokers.start(1)
    settings = settings_of(0)
    brokers.store.is_cut_off = True
    with pytest.raises(StoreSilent, match="awaited the topics"):
        await create_first_topics(metadata, settings, StoreWait(settings))


async def test_a_refused_topic_is_named(brokers: Brokers) -> None:
    metadata = await brokers.start(1)
    settings = Settings(
        oncelog_create_topics=("a:1:3",), oncelog_etcd_endpoints=("http://127.0.0.1:1",)
    )
    reason = await create_first_topics(metadata, settings, StoreWait(settings))
    assert reason.startswith("oncelog.create.topics: a: INVALID_REPLICATION_FACTOR")
