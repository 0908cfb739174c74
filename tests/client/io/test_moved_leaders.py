"""Producer and consumer follow the leaders and the read replicas that brokers name, without a pause
and without fresh metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple
from unittest.mock import patch

import pytest

from oncelog_client.io import fetcher as fetcher_module
from oncelog_client.io.fetcher import Fetcher
from oncelog_client.values import Node
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchResponse, LeaderIdAndEpoch, NodeEndpoint
from tests.client.io.scripted_leader import Leader, answer, batch, reading

OLD, NEW = 1, 2


class Brokers(NamedTuple):
    fetcher: Fetcher
    old: Leader
    new: Leader


@pytest.fixture
async def brokers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Brokers]:
    """The time stands still, so a fetch after a pause never comes."""
    monkeypatch.setattr(fetcher_module, "monotonic_ms", lambda: 0.0)
    async with reading() as (_, fetcher, old):
        new = Leader()
        cluster = fetcher._cluster
        nodes = {OLD: Node(OLD, "one", 9092, None), NEW: Node(NEW, "two", 9092, None)}
        cluster.metadata = cluster.metadata._replace(brokers=nodes)
        by_id = {OLD: old, NEW: new}
        with (
            patch.object(cluster, "ready_connection", lambda node, *_: by_id[node]),
            patch.object(cluster, "refresh_soon", lambda: None),
        ):
            yield Brokers(fetcher, old, new)


async def nothing_else(leader: Leader) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert leader._asked.empty()


def moved(leader: int, epoch: int) -> FetchResponse:
    response = answer(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader, epoch),
    )
    response.node_endpoints = [NodeEndpoint(leader, "two", 9092)]
    return response


async def test_a_consumer_goes_to_the_new_leader_at_once(brokers: Brokers) -> None:
    brokers.fetcher.pump()
    _, response = await brokers.old.asked()
    response.set_result(moved(NEW, 1))
    asked, response = await brokers.new.asked()
    assert (asked.fetch_offset, asked.current_leader_epoch) == (0, 1)
    response.set_result(answer(records=batch(0, 1, epoch=1)))
    await brokers.new.asked()
    assert [record.offset for record in brokers.fetcher.records.take(10)] == [0]


async def test_a_consumer_waits_if_the_leader_that_it_knows_is_named(brokers: Brokers) -> None:
    brokers.fetcher.pump()
    _, response = await brokers.old.asked()
    response.set_result(moved(NEW, 0))
    await nothing_else(brokers.old)
    await nothing_else(brokers.new)


async def test_a_consumer_reads_from_the_replica_that_the_leader_prefers(brokers: Brokers) -> None:
    brokers.fetcher.pump()
    _, response = await brokers.old.asked()
    response.set_result(answer(preferred_read_replica=NEW))
    _, response = await brokers.new.asked()
    await nothing_else(brokers.old)
    response.set_result(answer(records=batch(0, 1, epoch=1)))
    asked, response = await brokers.new.asked()
    assert asked.fetch_offset == 1


async def test_an_offset_that_a_follower_does_not_have_resets_nothing(brokers: Brokers) -> None:
    """The follower may be behind. Only the leader knows that an offset is out of range."""
    brokers.fetcher.pump()
    _, response = await brokers.old.asked()
    response.set_result(answer(preferred_read_replica=NEW))
    _, response = await brokers.new.asked()
    response.set_result(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    asked, _ = await brokers.old.asked()
    assert asked.fetch_offset == 0
