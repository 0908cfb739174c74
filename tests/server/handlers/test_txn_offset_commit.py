"""TxnOffsetCommit, while another client ends the transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.deferred import Deferred
from oncelog_server.handlers import txn_offset_commit
from oncelog_server.transaction.fences import FenceCause
from tests.server.handlers.nodes import broker, context
from tests.server.transaction.world import GROUP, OFFSETS, World, value_of
from tests.server.transaction.world_clock import WorldClock

SHARDS = 2
INPUT = "in"


def id_in(shard: int, name: str) -> str:
    """Return a transactional id of partition `shard` of `__transaction_state`. It begins with
    `name`."""
    numbers = range(100)
    return next(
        candidate
        for candidate in (f"{name}{n}" for n in numbers)
        if partition_for(candidate, SHARDS) == shard
    )


OLDER, NEWER = id_in(0, "older"), id_in(1, "newer")
Producer = tuple[int, int]


@asynccontextmanager
async def flushing() -> AsyncIterator[tuple[World, BrokerServices]]:
    """A broker that responds once the data is on the disk."""
    world = World(flush_on_ack=True, shards=SHARDS)
    async with broker() as bare:
        await bare.metadata.create_topics([NewTopic(INPUT)])
        clock = WorldClock(world)
        yield (
            world,
            replace(
                bare,
                groups=world.groups,
                transactions=world.transactions,
                partition_adding=world.transactions.add_partitions,
                clock=clock,
            ),
        )


def commit(
    services: BrokerServices, transactional_id: str, producer: Producer, offset: int, version: int
) -> Any:
    """Commit one offset of the input. Return the response, or its Deferred."""
    partitions = [TxnOffsetCommitRequestPartition(0, offset)]
    topics = [TxnOffsetCommitRequestTopic(INPUT, partitions=partitions)]
    request = TxnOffsetCommitRequest(transactional_id, GROUP, *producer, topics=topics)
    return txn_offset_commit.handle(
        services, context(services, txn_offset_commit.API, version), request
    )


def code_of(response: Any) -> ErrorCode:
    found = value_of(response)
    return ErrorCode(found.topics[0].partitions[0].error_code)


def begun(world: World, transactional_id: str) -> Producer:
    """Return a producer with the group in its transaction."""
    producer = world.producer(transactional_id)
    added = world.add(producer, OFFSETS, transactional_id=transactional_id)
    world.settle()
    assert value_of(added).code is ErrorCode.NONE
    return producer


def is_open(world: World) -> bool:
    """Return True if a transaction is open in the log of the offsets."""
    log = world.partitions[OFFSETS]
    return log.last_stable_offset < log.high_watermark


def waiting_for_the_older(
    world: World, services: BrokerServices, version: int
) -> tuple[Producer, Deferred[Any]]:
    """Return the newer producer and its commit, which waits for the abort of the older producer's
    transaction. The disk is slow for the older producer's partition of `__transaction_state`."""
    older, newer = begun(world, OLDER), begun(world, NEWER)
    response = commit(services, OLDER, older, 5, version)
    world.settle()
    assert code_of(response) is ErrorCode.NONE
    world.slow.add(world.transaction_logs[0])
    waiting = commit(services, NEWER, newer, 7, version)
    assert isinstance(waiting, Deferred)
    assert not waiting.done
    return newer, waiting


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_r12_waiting_offsets_are_refused_if_their_transaction_ends_meanwhile(
    version: int, code: ErrorCode
) -> None:
    """The newer transaction is verified, and then its offsets wait for the abort of the older
    transaction. If they were appended after the end of their own transaction, they would be pending
    forever, because no marker follows."""
    async with flushing() as (world, services):
        newer, waiting = waiting_for_the_older(world, services, version)
        ended = world.end(newer, True, transactional_id=NEWER, bumps_epoch=False)
        world.settle()
        assert value_of(ended).code is ErrorCode.NONE
        assert not waiting.done
        world.hurry()
        world.settle()
        assert code_of(waiting) is code
        assert not is_open(world)
        assert len(world.partitions[OFFSETS].guards) == 0
        assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)


async def test_r12_offsets_of_an_ended_transaction_do_not_become_pending_in_the_next_one() -> None:
    async with flushing() as (world, services):
        newer, waiting = waiting_for_the_older(world, services, 4)
        ended = world.end(newer, True, transactional_id=NEWER, bumps_epoch=False)
        world.settle()
        assert value_of(ended).code is ErrorCode.NONE
        again = world.add(newer, OFFSETS, transactional_id=NEWER)
        world.settle()
        assert value_of(again).code is ErrorCode.NONE
        world.hurry()
        world.settle()
        assert code_of(waiting) is ErrorCode.TRANSACTION_ABORTABLE
        assert not is_open(world)


async def test_offsets_are_appended_once_the_older_transaction_is_aborted() -> None:
    async with flushing() as (world, services):
        newer, waiting = waiting_for_the_older(world, services, 4)
        world.hurry()
        world.settle()
        assert code_of(waiting) is ErrorCode.NONE
        assert is_open(world)
        ended = world.end(newer, True, transactional_id=NEWER, bumps_epoch=False)
        world.settle()
        assert value_of(ended).code is ErrorCode.NONE
        assert not is_open(world)
        assert len(world.partitions[OFFSETS].guards) == 0
        assert world.offset(require_stable=True) == (ErrorCode.NONE, 7)


async def test_a_producer_refused_for_an_older_commit_has_a_fence_with_the_cause() -> None:
    """The older transaction is committed, but its marker cannot be written yet. The commit of the
    newer producer is refused, and the fence of this producer has the cause."""
    async with flushing() as (world, services):
        older, newer = begun(world, OLDER), begun(world, NEWER)
        response = commit(services, OLDER, older, 5, 4)
        world.settle()
        assert code_of(response) is ErrorCode.NONE
        world.scene.leaderless.add(OFFSETS)
        world.end(older, True, transactional_id=OLDER, bumps_epoch=False)
        world.settle()
        for _ in range(2):
            refused = commit(services, NEWER, newer, 7, 4)
            assert code_of(refused) is ErrorCode.INVALID_PRODUCER_EPOCH
        (fence,) = world.transactions.find(NEWER).fences
        assert (fence.cause, fence.refusals) == (FenceCause.CONCURRENT_COMMIT, 2)
        assert not fence.for_good
