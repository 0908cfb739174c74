"""The consumer automatically commits only processed records, so a crash loses no record."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import Consumer, Producer, TopicPartition
from oncelog_client.config import consumer_config
from oncelog_client.core.membership import Membership, MembershipConfig
from oncelog_client.core.subscription import Subscription
from oncelog_client.io.auto_commit import AutoCommit
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.positions import Positions
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.harness.client_reading import DEADLINE_S, eventually

COUNT = 6


@pytest.fixture
def settings(name: str) -> dict[str, Any]:
    """Return settings that make a commit due at every poll."""
    return {
        "group_id": name,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 0,
        "default_api_timeout_ms": DEADLINE_S * 1000,
    }


@pytest.fixture
async def filled(producer: Producer, topic: str) -> TopicPartition:
    """A partition with COUNT records."""
    for number in range(COUNT):
        await producer.send(topic, b"%d" % number, partition=0)
    await producer.flush()
    return TopicPartition(topic, 0)


async def committed_now(consumer: Consumer, partition: TopicPartition) -> int:
    """Return the committed offset, or 0 without a commit.

    The offset is from the second of two requests. The consumer sends its background commits during
    the first request, on the same connection, so the broker serves them before the second request.
    """
    for _ in range(2):
        found = await consumer.committed(partition)
    offset = found[partition]
    return 0 if offset is None else offset.offset


async def test_a_poll_does_not_commit_the_records_that_it_returns(
    bootstrap: str, filled: TopicPartition, settings: dict[str, Any]
) -> None:
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.assign([filled])
        done = 0
        while done < COUNT:
            given = await consumer.poll(DEADLINE_S * 1000, max_records=2)
            assert await committed_now(consumer, filled) <= done
            done = given[-1].offset + 1

        async def all_committed() -> bool:
            await consumer.poll()
            return await committed_now(consumer, filled) == COUNT

        await eventually(all_committed)


async def test_an_assignment_commits_the_partitions_that_it_drops(
    bootstrap: str, filled: TopicPartition, settings: dict[str, Any]
) -> None:
    """As `assign` of Java. No later commit has the positions of these partitions."""
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.assign([filled])
        given = await consumer.poll(DEADLINE_S * 1000, max_records=2)
        await consumer.assign([])
        assert await committed_now(consumer, filled) == given[-1].offset + 1 == 2


async def test_iterating_does_not_commit_the_record_at_hand(
    bootstrap: str, filled: TopicPartition, settings: dict[str, Any]
) -> None:
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.subscribe([filled.topic])
        async for record in consumer:
            assert await committed_now(consumer, filled) <= record.offset
            if record.offset == COUNT - 1:
                break


async def test_an_explicit_commit_comes_after_a_background_commit(
    bootstrap: str, filled: TopicPartition, settings: dict[str, Any]
) -> None:
    """At the call of `commit`, the background commit that the last poll began is in flight, with
    older positions."""
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.assign([filled])
        await consumer.poll(DEADLINE_S * 1000, max_records=2)
        await committed_now(consumer, filled)
        given = await consumer.poll(max_records=2)
        await consumer.commit()
        assert await committed_now(consumer, filled) == given[-1].offset + 1 == 4


async def test_a_retried_commit_sends_the_present_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A retried commit must have the present positions, not those of its first attempt."""
    config = consumer_config("127.0.0.1:9", {"group_id": "g", "auto_commit_interval_ms": 0})
    cluster, subscription = Cluster(config, auto_create=False), Subscription()
    committed: list[int] = []

    async def refuse(_: object, __: str, request: OffsetCommitRequest, *___: object) -> object:
        committed.append(request.topics[0].partitions[0].committed_offset)
        row = OffsetCommitResponsePartition(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])

    monkeypatch.setattr(cluster, "call_coordinator", refuse)
    positions = Positions(cluster, config, subscription, lambda: None)
    positions.membership = Membership(MembershipConfig(group_id="g"), 0)
    auto_commit = AutoCommit(cluster, config, positions)
    auto_commit.start()
    subscription.assign([TopicPartition("t", 0)])
    subscription[TopicPartition("t", 0)].jump(1)

    async def moved() -> bool:
        auto_commit.commit_if_due(monotonic_ms())
        return 2 in committed

    assert not await moved()
    subscription[TopicPartition("t", 0)].jump(2)
    await eventually(moved)
    assert committed[0] == 1
    await cluster.close()
