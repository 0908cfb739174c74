"""A producer recovers by an InitProducerId that keeps its prepared transaction. The transaction
stays open, whichever coordinator gets the request. Only the coordinator of the transaction can keep
it prepared (KIP-939 with KIP-447, early draft)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.results import TransactionResult
from tests.server.transaction.group_scenes import end, member, produce
from tests.server.transaction.grouped.driver import IN0, IN1
from tests.server.transaction.grouped.test_coordinator import SHARDS, named
from tests.server.transaction.scenes import outcomes
from tests.server.transaction.world import A0, A1, GROUP, World, value_of


def ask(
    world: World, name: str, generation: int | None, *, keep: bool, is_current: bool = False
) -> TransactionResult:
    """Send InitProducerId of a two-phase producer, in the group unless `generation` is None."""
    membership = (
        None if generation is None else GroupAssignment(GROUP, generation, frozenset({IN0}))
    )
    response = world.transactions.init_producer_id(
        InitProducerId(name, 60_000, two_phase=True, keep_prepared=keep),
        membership,
        is_current=is_current,
    )
    world.settle()
    return value_of(response)


def prepared(world: World, name: str, generation: int | None) -> None:
    """Prepare a transaction of a producer that then never returns."""
    made = ask(world, name, generation, keep=False)
    assert made.code is ErrorCode.NONE
    if generation is None:
        world.produce((made.producer_id, made.producer_epoch), A0, 0, transactional_id=name)
    else:
        produce(world, GroupedTransaction(name, made.producer_id, made.producer_epoch), A0)


def log_ends(world: World) -> list[int]:
    return [world.oracle(log).end_offset for log in world.transaction_logs]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_recovery_outside_of_its_group_aborts_nothing(elsewhere: bool) -> None:
    world = World(shards=SHARDS)
    name = named(elsewhere)
    prepared(world, name, 1)
    before = log_ends(world)
    assert ask(world, name, None, keep=True).code is ErrorCode.INVALID_TXN_STATE
    assert (log_ends(world), outcomes(world, A0)) == (before, [])
    keeper = ask(world, name, 1, keep=True)
    assert keeper.ongoing_producer_id == keeper.producer_id
    assert value_of(end(world, GroupedTransaction(name, *owner(keeper)))).code is ErrorCode.NONE
    assert outcomes(world, A0) == [True]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_recovery_in_a_group_of_a_transaction_from_outside_the_group_aborts_nothing(
    elsewhere: bool,
) -> None:
    world = World(shards=SHARDS)
    name = named(elsewhere)
    prepared(world, name, None)
    before = log_ends(world)
    assert ask(world, name, 1, keep=True).code is ErrorCode.INVALID_TXN_STATE
    assert (log_ends(world), outcomes(world, A0)) == (before, [])
    keeper = ask(world, name, None, keep=True)
    ended = world.end(owner(keeper), True, transactional_id=name)
    assert value_of(ended).code is ErrorCode.NONE
    assert outcomes(world, A0) == [True]


@pytest.mark.parametrize("elsewhere", [True, False])
@pytest.mark.parametrize("generation", [None, 1])
def test_without_an_open_transaction_a_two_phase_id_moves_as_any_other(
    generation: int | None, elsewhere: bool
) -> None:
    world = World(shards=SHARDS)
    name = named(elsewhere)
    assert ask(world, name, generation, keep=False).code is ErrorCode.NONE
    moved = ask(world, name, 1 if generation is None else None, keep=True)
    assert (moved.code, moved.ongoing_producer_id) == (ErrorCode.NONE, -1)


def test_in_a_recreated_group_other_members_wait_for_the_prepared_transaction() -> None:
    world = World()
    prepared(world, "two-phase", 57)
    member(world, "other", 57, IN1)
    before = log_ends(world)
    for _ in range(3):
        response = ask(world, "other", 1, keep=False, is_current=True)
        assert response.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (log_ends(world), outcomes(world, A0)) == (before, [])


def test_in_a_recreated_group_the_prepared_transaction_is_kept_and_then_ended() -> None:
    world = World(shards=SHARDS)
    name = named(elsewhere=True)
    prepared(world, name, 57)
    other = member(world, "other", 57, IN1)
    produce(world, other, A1)
    keeper = ask(world, name, 1, keep=True, is_current=True)
    assert keeper.code is ErrorCode.NONE
    assert value_of(end(world, GroupedTransaction(name, *owner(keeper)))).code is ErrorCode.NONE
    assert outcomes(world, A0) == [True]
    # With no prepared transaction left, the coordinator accepts the recreated group, and fences the
    # other member.
    while (response := ask(world, name, 1, keep=True, is_current=True)).code is not ErrorCode.NONE:
        assert response.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert value_of(end(world, other)).code is ErrorCode.PRODUCER_FENCED


def owner(result: TransactionResult) -> tuple[int, int]:
    return result.producer_id, result.producer_epoch
