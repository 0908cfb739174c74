"""Two-phase commit over the whole path (KIP-939): readers wait for a prepared transaction, and
fenced producers are refused."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from tests.server.transaction.scenes import outcomes
from tests.server.transaction.world import A0, A1, B0, OFFSETS, World, value_of

DAY_MS = 86_400_000


def prepared(world: World) -> tuple[int, int]:
    """Prepare a transaction over two partitions and an offset. Return the producer id and epoch."""
    producer = world.producer(two_phase=True)
    for partition in (A0, B0):
        world.produce(producer, partition, 0)
    world.add(producer, OFFSETS)
    world.commit_offset(producer, 3)
    return producer


def kept(world: World) -> tuple[int, int]:
    result = value_of(world.init(two_phase=True, keep=True))
    assert result.code is ErrorCode.NONE
    return result.producer_id, result.producer_epoch


def test_w1_readers_wait_for_a_prepared_transaction_over_three_fail_overs() -> None:
    world = World()
    producer = prepared(world)
    for _ in range(3):
        world = world.crash(down_ms=30 * DAY_MS)
        world.settle(30 * DAY_MS)
        assert world.transactions.abort_overdue(10) == []
        assert world.partitions[A0].last_stable_offset == 0
        assert world.offset(require_stable=True)[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
        world.check()
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert (world.read(A0), world.read(B0)) == ([b"v"], [b"v"])
    assert world.offset(require_stable=True) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("crashes", [False, True])
def test_w2_the_decision_reaches_every_partition_of_the_kept_transaction(
    committed: bool, crashes: bool
) -> None:
    world = World()
    prepared(world)
    keeper = kept(world)
    if crashes:
        world = world.crash()
    end = value_of(world.end(keeper, committed))
    assert end.code is ErrorCode.NONE
    assert [outcomes(world, partition) for partition in (A0, B0)] == [[committed], [committed]]
    assert world.offset(require_stable=True) == (ErrorCode.NONE, 3 if committed else -1)
    world.check()
    append, _ = world.produce((end.producer_id, end.producer_epoch), A0, 0)
    assert append.code is ErrorCode.NONE


@pytest.mark.parametrize("adds_partitions", [True, False])
def test_w2_neither_the_old_nor_the_new_instance_writes_into_a_kept_transaction(
    adds_partitions: bool,
) -> None:
    world = World()
    old = prepared(world)
    new = kept(world)
    append, _ = world.produce(new, A0, 0, adds_partitions=adds_partitions)
    assert append.code is ErrorCode.INVALID_TXN_STATE
    append, _ = world.produce(new, A1, 0, adds_partitions=adds_partitions)
    assert append.code is ErrorCode.INVALID_TXN_STATE
    append, _ = world.produce(old, A1, 0, adds_partitions=adds_partitions)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.oracle(A1).end_offset == 0
    world.check()


def test_w2_the_first_keeper_cannot_write_after_another_keeper_has_ended_the_transaction() -> None:
    """The markers have the same epoch as the first keeper, so the partitions do not fence the
    keeper. Only the coordinator does."""
    world = World()
    prepared(world)
    first, second = kept(world), kept(world)
    assert value_of(world.end(first, False)).code is ErrorCode.PRODUCER_FENCED
    assert value_of(world.end(second, True)).code is ErrorCode.NONE
    for adds_partitions in (True, False):
        append, _ = world.produce(first, A0, 0, adds_partitions=adds_partitions)
        assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.read(A0) == [b"v"]


def test_w3_init_producer_id_without_keep_prepared_aborts_every_partition() -> None:
    world = World()
    prepared(world)
    kept(world)
    assert value_of(world.init(two_phase=True)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [outcomes(world, partition) for partition in (A0, B0)] == [[False], [False]]
    assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)
    world.check()
