"""Fetch returns the new leader of a moved partition. A waiting Fetch notices that its topic is
deleted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.handlers import fetch
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import StillClock, ask, broker, context
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition

NAME = TopicPartition("orders", 0)


async def with_orders(services: BrokerServices) -> BrokerServices:
    await services.metadata.create_topics([NewTopic("orders")])
    found = partition(name=NAME, topic_id=services.metadata.image.topics[NAME.topic].id)
    found.append(batch(), now_ms=NOW_MS)
    services.partitions.add(found)
    return replace(
        services,
        clock=StillClock(),
        timers=ManualTimers(),
        fetch_sessions=FetchSessions(10, lambda: 1),
    )


def request(
    services: BrokerServices, offset: int = 0, *, leader_epoch: int = -1, wait_ms: int = 0
) -> Any:
    topic = FetchTopic(
        NAME.topic,
        services.metadata.image.topics[NAME.topic].id,
        [FetchPartition(0, leader_epoch, offset, partition_max_bytes=1_000)],
    )
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[topic])


@pytest.mark.parametrize("version", [12, 15, 16, 18])
async def test_KIP951_a_reader_gets_the_current_leader(version: int) -> None:
    async with broker() as bare:
        services = await with_orders(bare)
        found = services.partitions.require(*NAME)
        found.become_follower(2, 3)
        response = await ask(fetch, services, request(services), version)
        (partition,) = response.responses[0].partitions
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if version < fetch.LEADERS_SINCE:
            assert partition.current_leader is None
            return
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 0)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "inside", 9092)


@pytest.mark.parametrize(
    ("epoch", "code", "is_sent"),
    [
        (1, ErrorCode.FENCED_LEADER_EPOCH, True),
        (9, ErrorCode.UNKNOWN_LEADER_EPOCH, False),
        (5, ErrorCode.NONE, False),
    ],
)
async def test_KIP951_only_a_reader_with_an_older_leader_epoch_gets_the_leader(
    epoch: int, code: ErrorCode, is_sent: bool
) -> None:
    async with broker() as bare:
        services = await with_orders(bare)
        services.partitions.require(*NAME).become_leader(1, 5, (1,), (1,))
        response = await ask(fetch, services, request(services, 1, leader_epoch=epoch))
        (partition,) = response.responses[0].partitions
        assert partition.error_code == code
        assert (partition.current_leader is not None) is is_sent
        assert bool(response.node_endpoints) is is_sent


async def test_a_parked_reader_of_a_topic_that_is_deleted_gets_the_error() -> None:
    async with broker() as bare:
        services = await with_orders(bare)
        parked = fetch.handle(
            services, context(services, fetch.API, 17), request(services, offset=1, wait_ms=60_000)
        )
        assert isinstance(parked, Deferred)
        await services.metadata.delete_topics([NAME.topic])
        gone = services.partitions.remove(NAME)
        assert gone is not None
        gone.resign()
        assert isinstance(services.timers, ManualTimers)
        services.timers.run_soon()
        await asyncio.sleep(0)
        (response,) = parked.value.responses[0].partitions
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert not services.timers.waiting


@pytest.mark.parametrize(
    ("version", "code"), [(17, ErrorCode.INCONSISTENT_TOPIC_ID), (12, ErrorCode.NONE)]
)
async def test_a_fetch_by_id_reads_no_partition_of_another_topic_with_the_name(
    version: int, code: ErrorCode
) -> None:
    async with broker() as bare:
        services = await with_orders(bare)
        services.partitions.require(*NAME).topic_id = bytes([7] * 16)
        response = await ask(fetch, services, request(services, offset=1), version)
        (row,) = response.responses[0].partitions
        assert row.error_code == code


@pytest.mark.parametrize("level", [-1, 2, 127])
async def test_an_unknown_isolation_level_is_an_invalid_request(level: int) -> None:
    async with broker() as bare:
        services = await with_orders(bare)
        asked = request(services)
        asked.isolation_level = level
        response = await ask(fetch, services, asked)
        assert (response.error_code, response.responses) == (ErrorCode.INVALID_REQUEST, [])
