"""TxnOffsetCommit with both coordinators. `tests/server/handlers/test_txn_offset_commit.py` tests
its races."""

from __future__ import annotations

from typing import cast

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.group.moment import Caller
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.offset_commit import TransactionalCommit, TxnOffsetCommitResult
from tests.server.transaction.world import GROUP, OFFSETS, World, value_of


def outcome(
    world: World,
    producer: tuple[int, int],
    *,
    adds: bool = False,
    verifies: bool = False,
    version: int = 5,
) -> TxnOffsetCommitResult:
    partitions = [TxnOffsetCommitRequestPartition(0, 5)]
    topics = [TxnOffsetCommitRequestTopic("in", partitions=partitions)]
    commit = TransactionalCommit(
        world.transactions,
        world.transactions.add_partitions,
        world.groups,
        TxnOffsetCommitRequest("t", GROUP, *producer, topics=topics),
        caller=Client("client", "/127.0.0.1"),
        asking=lambda: Caller(now_ms=world.now(), wall_ms=world.wall(), api_version=version),
        api_version=version,
        aborts_older=False,
    ).run(adds=adds, verifies=verifies)
    world.settle()
    return cast("TxnOffsetCommitResult", value_of(commit))


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
