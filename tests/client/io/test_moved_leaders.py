"""Producer and consumer follow the leaders and the read replicas that brokers name, without a pause
and without fresh metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from oncelog_client.core.metadata import TopicInfo
from oncelog_client.io import fetcher as fetcher_module
from oncelog_client.io.fetcher import Fetcher
from oncelog_client.values import Node, PartitionInfo
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchResponse, LeaderIdAndEpoch, NodeEndpoint
from tests.client.io.scripted_leader import TP, Leader, answer, batch, reading

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


async def asked_of_both(brokers: Brokers) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
    """Let the leader change while a Fetch to the old one is in flight. Return the futures of the
    responses of the old and of the new leader to a Fetch from offset 0."""
    brokers.fetcher.pump()
    _, of_old = await brokers.old.asked()
    cluster = brokers.fetcher._cluster
    partitions = (PartitionInfo("t", 0, NEW, 1, (OLD, NEW), (OLD, NEW)),)
    topics = {"t": TopicInfo("t", partitions=partitions)}
    cluster.metadata = cluster.metadata._replace(topics=topics)
    brokers.fetcher.pump()
    asked, of_new = await brokers.new.asked()
    assert asked.fetch_offset == 0
    return of_old, of_new


@pytest.mark.parametrize("is_old_first", [True, False])
@pytest.mark.parametrize("is_taken_between", [True, False])
async def test_records_of_the_old_and_of_the_new_leader_are_returned_once(
    brokers: Brokers, is_old_first: bool, is_taken_between: bool
) -> None:
    of_old, of_new = await asked_of_both(brokers)
    first, second = (of_old, of_new) if is_old_first else (of_new, of_old)
    taken = []
    first.set_result(answer(records=batch(0, 2, epoch=0)))
    await asyncio.sleep(0)
    if is_taken_between:
        taken += brokers.fetcher.records.take(10)
    second.set_result(answer(records=batch(0, 3, epoch=0)))
    await asyncio.sleep(0)
    taken += brokers.fetcher.records.take(10)
    assert [record.offset for record in taken] == [0, 1]
    asked, _ = await brokers.new.asked()
    assert asked.fetch_offset == 2


async def test_a_late_error_of_the_old_leader_does_not_reset_the_position(
    brokers: Brokers,
) -> None:
    """The old leader's log may end before the records that the new one has returned."""
    of_old, of_new = await asked_of_both(brokers)
    of_new.set_result(answer(records=batch(0, 2, epoch=1)))
    await asyncio.sleep(0)
    assert len(brokers.fetcher.records.take(10)) == 2
    of_old.set_result(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    await asyncio.sleep(0)
    assert brokers.fetcher._subscription[TP].position == 2


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
