"""TxnOffsetCommit with both coordinators. `tests/server/handlers/test_txn_offset_commit.py` tests
its
other races."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.deferred import Deferred
from oncelog_server.group.moment import Caller
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.offset_commit import TransactionalCommit, TxnOffsetCommitResult
from oncelog_server.transaction.results import TransactionResult
from tests.server.transaction.world import GROUP, OFFSETS, World, value_of


def commit_of(
    world: World,
    producer: tuple[int, int],
    version: int,
    add_partitions: Callable[[AddPartitions], TransactionResult | Deferred[TransactionResult]],
) -> TransactionalCommit:
    partitions = [TxnOffsetCommitRequestPartition(0, 5)]
    topics = [TxnOffsetCommitRequestTopic("in", partitions=partitions)]
    return TransactionalCommit(
        world.transactions,
        add_partitions,
        world.groups,
        TxnOffsetCommitRequest("t", GROUP, *producer, topics=topics),
        caller=Client("client", "/127.0.0.1"),
        asking=lambda: Caller(now_ms=world.now(), wall_ms=world.wall(), api_version=version),
        api_version=version,
        aborts_older=False,
    )


def outcome(
    world: World,
    producer: tuple[int, int],
    *,
    adds: bool = False,
    verifies: bool = False,
    version: int = 5,
) -> TxnOffsetCommitResult:
    commit = commit_of(world, producer, version, world.transactions.add_partitions)
    found = commit.run(adds=adds, verifies=verifies)
    world.settle()
    return cast("TxnOffsetCommitResult", value_of(found))


def test_KIP890_the_group_is_added_and_its_offset_counts_after_the_commit() -> None:
    world = World()
    producer = world.producer()
    found = outcome(world, producer, adds=True)
    assert not isinstance(found, ErrorCode)
    assert found.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert world.transactions.views.details("t").partitions == (OFFSETS,)
    assert world.transactions.find("t").metadata.client_transaction_version == 2
    assert world.offset() == (ErrorCode.NONE, -1)
    world.end(producer, True)
    assert world.offset() == (ErrorCode.NONE, 5)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_KIP890_a_group_that_is_not_in_the_transaction_is_refused(
    version: int, code: ErrorCode
) -> None:
    world = World()
    assert outcome(world, world.producer(), verifies=True, version=version) is code
    assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)


def test_without_verification_the_group_coordinator_alone_decides() -> None:
    world = World()
    found = outcome(world, world.producer())
    assert not isinstance(found, ErrorCode)
    assert world.transactions.views.details("t").partitions == ()


def test_without_a_coordinator_all_partitions_are_refused() -> None:
    world = World()
    producer = world.producer()
    world.transactions.resign(0)
    assert outcome(world, producer, adds=True) is ErrorCode.NOT_COORDINATOR


class _HeldResponses:
    """The transaction coordinator on another broker. It decides at once, and its response is
    delivered by `deliver`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: list[tuple[Deferred[TransactionResult], TransactionResult]] = []

    def __call__(self, command: AddPartitions) -> Deferred[TransactionResult]:
        result = self._world.transactions.add_partitions(command)
        self._world.settle()
        response: Deferred[TransactionResult] = Deferred()
        self._held.append((response, value_of(result)))
        return response

    def deliver(self) -> None:
        held, self._held = self._held, []
        for response, result in held:
            response.complete(result)

    def abandon(self) -> None:
        for response, _ in self._held:
            response.abandon()


def begin(
    world: World, held: _HeldResponses, producer: tuple[int, int], version: int
) -> Deferred[TxnOffsetCommitResult]:
    """Return a commit that waits for the response of the transaction coordinator."""
    waiting = commit_of(world, producer, version, held).run(adds=version >= 5, verifies=True)
    assert isinstance(waiting, Deferred)
    assert not waiting.done
    return waiting


def _code_of(waiting: Deferred[TxnOffsetCommitResult]) -> ErrorCode:
    found = value_of(waiting)
    if isinstance(found, ErrorCode):
        return found
    return ErrorCode(found.topics[0].partitions[0].error_code)


def is_open(world: World) -> bool:
    """Return True if a transaction is open in the log of the offsets."""
    log = world.partitions[OFFSETS]
    return log.last_stable_offset < log.high_watermark


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_R12_a_marker_before_the_response_of_another_coordinator_refuses_the_offsets(
    version: int, code: ErrorCode
) -> None:
    """The marker has the epoch of the offsets, so without a guard they would be appended after it,
    and be pending forever."""
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    held = _HeldResponses(world)
    waiting = begin(world, held, producer, version)
    ended = world.end(producer, True, bumps_epoch=False)
    world.settle()
    assert value_of(ended).code is ErrorCode.NONE
    held.deliver()
    held.deliver()
    assert _code_of(waiting) is code
    assert not is_open(world)
    assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)
    assert len(world.partitions[OFFSETS].guards) == 0


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.TRANSACTION_ABORTABLE), (5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_R12_offsets_are_refused_even_if_the_next_transaction_has_the_group(
    version: int, code: ErrorCode
) -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    held = _HeldResponses(world)
    waiting = begin(world, held, producer, version)
    world.end(producer, True, bumps_epoch=False)
    world.settle()
    world.add(producer, OFFSETS)
    world.settle()
    held.deliver()
    held.deliver()
    assert _code_of(waiting) is code
    assert not is_open(world)


@pytest.mark.parametrize("version", [4, 5])
def test_offsets_are_written_if_their_transaction_stays_open_until_the_response(
    version: int,
) -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    held = _HeldResponses(world)
    waiting = begin(world, held, producer, version)
    held.deliver()
    world.settle()
    assert _code_of(waiting) is ErrorCode.NONE
    assert is_open(world)
    assert len(world.partitions[OFFSETS].guards) == 0


def test_a_guard_ends_with_a_response_that_never_comes() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    held = _HeldResponses(world)
    waiting = begin(world, held, producer, 4)
    held.abandon()
    assert waiting.abandoned
    assert len(world.partitions[OFFSETS].guards) == 0


def test_R12_a_group_that_left_this_broker_and_came_back_meanwhile_refuses_the_offsets() -> None:
    """The marker was written while another broker led the partition."""
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    held = _HeldResponses(world)
    waiting = begin(world, held, producer, 4)
    world.groups.resign(0)
    world.leader_epoch += 1
    world.partitions[OFFSETS] = again = world._open(OFFSETS)
    world.groups.lead(again)
    world.end(producer, True, bumps_epoch=False)
    world.settle()
    held.deliver()
    held.deliver()
    assert _code_of(waiting) is ErrorCode.TRANSACTION_ABORTABLE
    assert not is_open(world)


def test_without_the_group_no_response_is_awaited() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    held = _HeldResponses(world)
    world.groups.resign(0)
    refused = commit_of(world, producer, 4, held).run(adds=False, verifies=True)
    assert refused is ErrorCode.NOT_COORDINATOR
