"""A transaction with consumer offsets and no records has a timeout like any other."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.states import State
from tests.server.transaction.scenes import outcomes, state
from tests.server.transaction.world import A0, OFFSETS, World, value_of

TIMEOUT_MS = 5_000
BEFORE, STAGED = 3, 9
UNSTABLE = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)


def never_ended(world: World) -> tuple[int, int]:
    """Return a producer that has committed one transaction and has a pending offset in the next
    transaction."""
    producer = world.producer(timeout_ms=TIMEOUT_MS)
    world.add(producer, OFFSETS)
    world.commit_offset(producer, BEFORE)
    result = value_of(world.end(producer, True))
    producer = result.producer_id, result.producer_epoch
    world.add(producer, OFFSETS)
    world.commit_offset(producer, STAGED)
    assert state(world) is State.ONGOING
    assert world.offset(require_stable=True) == UNSTABLE
    return producer


def check_aborted(world: World) -> None:
    assert state(world) is State.COMPLETE_ABORT
    assert outcomes(world, OFFSETS) == [True, False]
    assert world.offset(require_stable=True) == (ErrorCode.NONE, BEFORE)
    log = world.partitions[OFFSETS]
    assert log.last_stable_offset == log.high_watermark


def test_T1_a_transaction_with_offsets_alone_is_aborted_at_its_timeout() -> None:
    world = World()
    producer = never_ended(world)
    world.settle(TIMEOUT_MS - 1)
    assert world.transactions.abort_overdue(10) == []
    assert world.offset(require_stable=True) == UNSTABLE
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    check_aborted(world)
    # The producer is fenced: its late commit changes nothing.
    assert value_of(world.end(producer, True)).code is ErrorCode.PRODUCER_FENCED
    world.commit_offset(producer, STAGED + 1)
    check_aborted(world)


@pytest.mark.parametrize("staged", [True, False], ids=["an offset", "nothing yet"])
def test_T5_a_transaction_with_only_offsets_times_out_after_a_fail_over(staged: bool) -> None:
    world = World()
    if staged:
        never_ended(world)
    else:
        world.add(world.producer(timeout_ms=TIMEOUT_MS), OFFSETS)
    world.settle(2_000)
    world = world.crash(down_ms=1_000)
    world.settle(1_999)
    assert world.transactions.abort_overdue(10) == []
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    assert state(world) is State.COMPLETE_ABORT
    if staged:
        check_aborted(world)
    else:
        assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)


def test_T6_records_after_the_offsets_do_not_restart_the_timeout() -> None:
    world = World()
    producer = world.producer(timeout_ms=TIMEOUT_MS)
    world.add(producer, OFFSETS)
    world.commit_offset(producer, STAGED)
    world.settle(TIMEOUT_MS - 1)
    world.produce(producer, A0, 0)
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    assert outcomes(world, A0) == outcomes(world, OFFSETS) == [False]
    assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)
