"""Expiry of unused transactional ids. The coordinator writes tombstones in slices, and none for an
id with an open transaction."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.commands.expiry import decide_expiry
from oncelog_server.transaction.groups import GroupAssignment, to_record
from oncelog_server.transaction.id_expiry import TOMBSTONES_PER_STEP, IdExpiry
from oncelog_server.transaction.metadata import tombstone
from oncelog_server.transaction.states import State
from tests.server.transaction.group_scenes import member
from tests.server.transaction.grouped.driver import IN0
from tests.server.transaction.scenes import opened, state
from tests.server.transaction.world import A0, GROUP, TXN_LOG, World, value_of

WEEK_MS = 604_800_000
OK, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


def expiry(world: World) -> IdExpiry:
    return IdExpiry(
        world.transactions.runtime,
        expiration_ms=WEEK_MS,
        wall_ms=world.wall,
        monotonic_ms=world.now,
    )


def sweep(sweeper: IdExpiry) -> int:
    """Run a complete sweep. Return the number of expired ids."""
    total = 0
    while True:
        expired, goes_on = sweeper.step()
        total += expired
        if not goes_on:
            return total


def test_the_end_of_a_sweep_is_reported_with_the_time_of_its_expiry() -> None:
    """The pointers to groups, which a cluster has, expire after the ids."""
    world = World()
    swept: list[tuple[int, set[str]]] = []
    sweeper = IdExpiry(
        world.transactions.runtime,
        expiration_ms=WEEK_MS,
        wall_ms=world.wall,
        monotonic_ms=world.now,
        on_swept=lambda before_ms: swept.append((before_ms, known(world))),
    )
    world.producer()
    world.settle(WEEK_MS)
    assert sweep(sweeper) == 1
    assert swept == [(world.wall() - WEEK_MS, set())]


def known(world: World) -> set[str]:
    ((_, shard),) = world.transactions.runtime.shards()
    return set(shard.transactions)


def test_x1_an_idle_transactional_id_expires_after_its_time_and_not_earlier() -> None:
    world = World()
    sweeper = expiry(world)
    producer = world.producer()
    world.settle(WEEK_MS - 1)
    assert sweep(sweeper) == 0
    world.settle(1)
    assert sweep(sweeper) == 1
    assert value_of(world.add(producer, A0)).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert value_of(world.end(producer, True)).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert known(world.crash()) == set(), "a restart does not restore the id"


def test_x1_each_use_of_a_transactional_id_restarts_its_expiration() -> None:
    world = World()
    sweeper = expiry(world)
    producer = world.producer()
    for _ in range(3):
        world.settle(WEEK_MS - 1)
        world.add(producer, A0)
        end = value_of(world.end(producer, True))
        producer = end.producer_id, end.producer_epoch
        assert sweep(sweeper) == 0


def test_x2_the_producer_of_an_expired_transactional_id_gets_another_producer_id() -> None:
    world = World()
    producer = world.producer()
    sweeper = expiry(world)
    world.settle(WEEK_MS)
    sweep(sweeper)
    again = value_of(world.init(producer_id=producer[0], producer_epoch=producer[1]))
    assert (again.code, again.producer_epoch) == (OK, 0)
    assert again.producer_id != producer[0]
    append, _ = world.produce(producer, A0, 0)
    assert append.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("prepared", [False, True])
def test_x3_a_transactional_id_with_an_open_or_decided_transaction_never_expires(
    prepared: bool,
) -> None:
    world = World()
    producer = opened(world, A0)
    sweeper = expiry(world)
    if prepared:
        world.scene.leaderless.add(A0)
        world.end(producer, True)
    world.timers.now_ms += 100 * WEEK_MS
    assert sweep(sweeper) == 0
    assert state(world) is (State.PREPARE_COMMIT if prepared else State.ONGOING)


def test_x4_an_expired_transactional_id_is_busy_until_its_tombstone_is_committed() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    sweeper = expiry(world)
    world.settle(WEEK_MS)
    assert sweep(sweeper) == 1
    assert value_of(world.init()).code is BUSY
    assert value_of(world.add(producer, A0)).code is BUSY
    assert sweep(sweeper) == 0, "the next sweep writes no second tombstone"
    world.settle()
    response = world.init()
    world.settle()
    again = value_of(response)
    assert (again.code, again.producer_epoch) == (OK, 0)
    assert again.producer_id != producer[0]


def test_x5_ten_thousand_ids_expire_in_one_sweep_in_small_batches() -> None:
    world = World()
    for number in range(10_000):
        world.init(f"t{number}")
    sweeper = expiry(world)
    world.settle(WEEK_MS)
    world.init("fresh")
    slices = []
    goes_on = True
    while goes_on:
        before = world.partitions[TXN_LOG].log_end_offset
        expired, goes_on = sweeper.step()
        slices.append(expired)
        assert world.partitions[TXN_LOG].log_end_offset - before == expired
    assert sum(slices) == 10_000
    assert max(slices) == TOMBSTONES_PER_STEP
    assert known(world) == {"fresh"}
    assert sweep(sweeper) == 0


def test_x5_long_ids_make_smaller_batches() -> None:
    world = World()
    for number in range(30):
        world.init(f"{number}" * 10_000)
    sweeper = expiry(world)
    world.settle(WEEK_MS)
    sizes = []
    goes_on = True
    while goes_on:
        before = world.partitions[TXN_LOG].size_bytes
        _, goes_on = sweeper.step()
        sizes.append(world.partitions[TXN_LOG].size_bytes - before)
    assert known(world) == set()
    assert max(sizes) < 200_000


def test_x6_ids_stay_usable_if_no_tombstone_can_be_written() -> None:
    world = World()
    producer = world.producer()
    sweeper = expiry(world)
    world.settle(WEEK_MS)
    world.files.capacity = 0
    assert sweep(sweeper) == 1
    world.files.capacity = None
    assert value_of(world.add(producer, A0)).code is OK
    assert value_of(world.end(producer, True)).code is OK
    assert sweep(sweeper) == 0


@pytest.mark.parametrize("started_ms", [1_000, 30 * WEEK_MS])
def test_k3_a_clock_that_jumps_ahead_expires_no_transactional_id(started_ms: int) -> None:
    """`started_ms` is the monotonic time at the start. It may have any value."""
    world = World(now_ms=started_ms)
    world.producer()
    sweeper = expiry(world)
    world.settle(WEEK_MS // 2)
    world.started_wall_ms += 8 * 86_400_000
    assert sweep(sweeper) == 0
    world.settle(WEEK_MS // 2)
    assert sweep(sweeper) == 1, "the id expires by monotonic time"


def test_k3_a_corrected_clock_jump_does_not_change_the_expiration() -> None:
    world = World()
    sweeper = expiry(world)
    world.started_wall_ms += 8 * 86_400_000
    assert sweep(sweeper) == 0
    world.started_wall_ms -= 8 * 86_400_000
    assert sweep(sweeper) == 0
    world.producer()
    world.settle(WEEK_MS - 1)
    assert sweep(sweeper) == 0
    world.settle(1)
    assert sweep(sweeper) == 1


def test_a_shard_that_moves_away_during_a_sweep_is_left_alone() -> None:
    world = World()
    for number in range(2 * TOMBSTONES_PER_STEP):
        world.init(f"t{number}")
    sweeper = expiry(world)
    world.settle(WEEK_MS)
    assert sweeper.step() == (TOMBSTONES_PER_STEP, True)
    world.transactions.resign(TXN_LOG.partition)
    end = world.partitions[TXN_LOG].log_end_offset
    assert sweep(sweeper) == 0
    assert world.partitions[TXN_LOG].log_end_offset == end


def test_an_id_that_expires_leaves_no_record_of_its_group() -> None:
    world = World()
    member(world, "t", 1, IN0)
    ((_, shard),) = world.transactions.runtime.shards()
    expired = shard.transactions["t"]
    records = decide_expiry([expired], shard.groups).records
    membership = to_record("t", GroupAssignment(GROUP, 1, frozenset({IN0})))
    assert {(record.key, record.value) for record in records} == {
        (tombstone("t").key, None),
        (membership.key, None),
    }
