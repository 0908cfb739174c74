"""WriteTxnMarkers of an operator (KIP-664): a marker ends a hanging transaction, but no part of a
transaction that its coordinator will end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.handlers import write_txn_markers
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import ask, broker
from tests.server.transaction.world import (
    A0,
    A1,
    OFFSETS,
    World,
    transactional_batch,
    value_of,
)
from tests.server.transaction.world_clock import WorldClock

NONE, LIVE = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE
both_outcomes = pytest.mark.parametrize("committed", [False, True], ids=["abort", "commit"])


@asynccontextmanager
async def served(world: World) -> AsyncIterator[BrokerServices]:
    async with broker() as bare:
        for name in (A0, A1):
            bare.partitions.add(world.partitions[name])
        yield replace(
            bare,
            clock=WorldClock(world),
            groups=world.groups,
            transactions=world.transactions,
            local_markers=world.local,
        )


async def codes_of(
    services: BrokerServices,
    producer: tuple[int, int],
    *partitions: TopicPartition,
    committed: bool = False,
    version: int = 2,
) -> list[ErrorCode]:
    """Send an operator's markers for these partitions, and return the codes in their order."""
    topics = [WritableTxnMarkerTopic(topic, [index]) for topic, index in partitions]
    marker = WritableTxnMarker(*producer, committed, topics, 0)
    request = WriteTxnMarkersRequest([marker])
    (answered,) = (await ask(write_txn_markers, services, request, version)).markers
    return [ErrorCode(topic.partitions[0].error_code) for topic in answered.topics]


def opened(world: World, **settings: Any) -> tuple[int, int]:
    """Return a producer with a record in A0, and with offsets of a group in its transaction."""
    producer = world.producer(**settings)
    world.produce(producer, A0, 0)
    value_of(world.add(producer, OFFSETS))
    return producer


def hangs(world: World, producer: tuple[int, int]) -> None:
    """Append a record to A1 as a client may without verification (KIP-890): A1 is not in the
    transaction of the coordinator."""
    data = transactional_batch(producer, 0, b"hanging", world.wall())
    world.partitions[A1].append(data, now_ms=world.wall())


@both_outcomes
@pytest.mark.parametrize("version", [1, 2])
async def test_a_marker_of_an_open_transaction_is_refused(committed: bool, version: int) -> None:
    world = World()
    producer = opened(world)
    bumped = producer[0], producer[1] + 1
    async with served(world) as services:
        for named in (producer, bumped):
            codes = await codes_of(
                services, named, A0, OFFSETS, committed=committed, version=version
            )
            assert codes == [LIVE, LIVE]
    partition = world.partitions[A0]
    assert (partition.last_stable_offset, partition.log_end_offset) == (0, 1)
    assert value_of(world.end(producer, True)).code is NONE
    assert partition.last_stable_offset == partition.log_end_offset == 2


@both_outcomes
async def test_a_marker_of_a_hanging_transaction_is_written(committed: bool) -> None:
    """The producer has an open transaction elsewhere, which stays whole."""
    world = World()
    producer = opened(world)
    hangs(world, producer)
    async with served(world) as services:
        codes = await codes_of(services, producer, A0, A1, committed=committed)
        assert codes == [LIVE, NONE]
    assert world.partitions[A1].last_stable_offset == 2
    assert world.partitions[A0].last_stable_offset == 0
    # Only an abort is listed as a fence past the coordinator.
    fences = world.transactions.find("t").fences
    assert [fence.label for fence in fences] == (
        [] if committed else ["operator, past the coordinator"]
    )


async def test_a_marker_of_a_decided_transaction_is_refused_until_it_is_complete() -> None:
    world = World()
    producer = opened(world)
    world.scene.leaderless.add(A0)
    world.end(producer, True)
    bumped = producer[0], producer[1] + 1
    async with served(world) as services:
        assert await codes_of(services, bumped, A0) == [LIVE]
        # The other partition has its marker already.
        assert await codes_of(services, bumped, OFFSETS) != [LIVE]
        world.scene.leaderless.clear()
        world.settle(5_000)
        hangs(world, bumped)
        assert await codes_of(services, bumped, A1) == [NONE]


async def test_a_marker_of_a_kept_transaction_is_refused() -> None:
    """Another producer will end the transaction (KIP-939). The transaction's markers have the first
    producer id."""
    world = World()
    producer = opened(world, two_phase=True)
    kept = value_of(world.init(keep=True, two_phase=True))
    assert kept.ongoing_producer_id == producer[0]
    async with served(world) as services:
        assert await codes_of(services, producer, A0) == [LIVE]


async def test_an_unknown_producers_marker_is_written() -> None:
    world = World()
    hangs(world, (7, 0))
    async with served(world) as services:
        assert await codes_of(services, (7, 0), A1) == [NONE]
    assert world.partitions[A1].last_stable_offset == 2


async def test_markers_are_refused_while_the_coordinator_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The transaction may be one of those that are loaded."""
    world = World()
    hangs(world, (7, 0))
    monkeypatch.setattr(type(world.transactions.runtime), "is_loading", True)
    async with served(world) as services:
        codes = await codes_of(services, (7, 0), A1)
    assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
