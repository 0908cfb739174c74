"""Fencing and timeouts over the whole path of a transaction: only the current producer may write,
until the timeout."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.background_tasks import ABORTS_PER_TURN
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import MarkerSettled
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.states import State
from tests.server.transaction.scenes import opened, outcomes, state
from tests.server.transaction.world import A0, A1, B0, OFFSETS, TXN_LOG, World, value_of

# --- fencing


def test_Z1_Z2_Z4_a_newer_producer_aborts_the_open_transaction_of_the_older_one() -> None:
    world = World()
    old = opened(world, A0)
    assert value_of(world.init()).code is ErrorCode.CONCURRENT_TRANSACTIONS
    result = value_of(world.init())
    assert (result.producer_id, result.producer_epoch) == (old[0], old[1] + 2)
    end = world.oracle(A0).end_offset, world.oracle(TXN_LOG).end_offset
    assert value_of(world.end(old, True)).code is ErrorCode.PRODUCER_FENCED
    assert value_of(world.end(old, True, bumps_epoch=False)).code is ErrorCode.PRODUCER_FENCED
    assert value_of(world.add(old, A1)).code is ErrorCode.PRODUCER_FENCED
    append, _ = world.produce(old, A0, 1, adds_partitions=False)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (world.oracle(A0).end_offset, world.oracle(TXN_LOG).end_offset) == end
    assert world.read(A0) == []
    world.check()


def test_Z3_a_zombie_is_refused_on_an_untouched_partition() -> None:
    world = World()
    old = opened(world, A0)
    world.init()
    append, _ = world.produce(old, B0, 0)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.partitions[B0].log_end_offset == 0


def test_Z5_offsets_of_a_zombie_change_nothing() -> None:
    world = World()
    old = world.producer()
    world.add(old, OFFSETS)
    world.commit_offset(old, 3)
    world.init()
    world.commit_offset(old, 9)
    assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)
    assert world.partitions[OFFSETS].last_stable_offset == world.oracle(OFFSETS).end_offset


def test_Z6_every_init_producer_id_during_the_abort_gets_concurrent_transactions() -> None:
    world = World(flush_on_ack=True)
    old = world.producer()
    world.produce(old, A0, 0)
    world.settle()
    responses = [world.init() for _ in range(3)]
    world.settle()
    assert {value_of(response).code for response in responses} == {
        ErrorCode.CONCURRENT_TRANSACTIONS
    }
    assert world.producer() == (old[0], old[1] + 2)


# --- timeouts


def test_T1_a_silent_producers_transaction_is_aborted_at_its_time_out() -> None:
    world = World()
    producer = world.producer(timeout_ms=5_000)
    world.produce(producer, A0, 0)
    world.settle(4_999)
    assert world.transactions.abort_overdue(10) == []
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    assert state(world) is State.COMPLETE_ABORT
    assert world.read(A0) == []
    assert world.partitions[A0].last_stable_offset == world.partitions[A0].high_watermark
    append, _ = world.produce(producer, A0, 1)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    late = value_of(world.end(producer, True))
    assert late.code is ErrorCode.PRODUCER_FENCED  # T4
    again = value_of(world.init(producer_id=producer[0], producer_epoch=producer[1]))
    assert (again.code, again.producer_epoch) == (ErrorCode.NONE, producer[1] + 1)  # KIP-588


def test_T6_the_time_out_runs_from_the_first_partition_not_from_the_last_activity() -> None:
    world = World()
    producer = world.producer(timeout_ms=5_000)
    for number, partition in enumerate((A0, A1, B0)):
        world.add(producer, partition)
        world.produce(producer, A0, number, adds_partitions=False)
        world.settle(1_900)
    assert world.transactions.abort_overdue(10) == ["t"]


def test_T5_a_fail_over_does_not_restart_the_timeout() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.produce(producer, A0, 0)
    world.settle(6_000)
    world = world.crash(down_ms=3_000)
    world.settle(999)
    assert world.transactions.abort_overdue(10) == []
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    assert outcomes(world, A0) == [False]


@pytest.mark.parametrize("down_ms", [-3_600_000, 3_600_000], ids=["back", "far ahead"])
def test_T5_a_wall_clock_jump_lengthens_the_timeout_at_most_to_twice(down_ms: int) -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.produce(producer, A0, 0)
    world = world.crash(down_ms=down_ms)
    world.settle(0 if down_ms > 0 else 10_000)
    assert world.transactions.abort_overdue(10) == ["t"]


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000], ids=["ahead", "back"])
def test_K1_K2_a_wall_clock_jump_does_not_move_the_deadline_of_a_transaction(by_ms: int) -> None:
    world = World()
    producer = world.producer(timeout_ms=5_000)
    world.produce(producer, A0, 0)
    world.settle(2_000)
    world.started_wall_ms += by_ms
    world.settle(2_999)
    assert world.transactions.abort_overdue(10) == []
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]


def test_T9_many_overdue_transactions_are_aborted_a_few_at_a_time() -> None:
    world = World()
    for number in range(25):
        producer = world.producer(f"t{number}", timeout_ms=1_000)
        world.add(producer, A0, transactional_id=f"t{number}")
    world.settle(1_000)
    assert [len(world.transactions.abort_overdue(10)) for _ in range(4)] == [10, 10, 5, 0]


@dataclass
class Ending:
    """A leader that lets another transaction end before it writes a marker."""

    world: World
    ends: Callable[[], object]
    is_local = True

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        self.ends()
        self.world.local.send(work, partitions, settled)


def test_a_transaction_that_ends_during_the_scan_is_not_aborted() -> None:
    world = World()
    first, second = (world.producer(name, timeout_ms=1_000) for name in ("t1", "t2"))
    world.produce(first, A0, 0, transactional_id="t1")
    world.produce(second, A1, 0, transactional_id="t2")
    world.settle(1_000)
    world.scene.remote[A0] = Ending(world, lambda: world.end(second, True, transactional_id="t2"))
    assert world.transactions.abort_overdue(10) == ["t1"]
    assert (outcomes(world, A0), outcomes(world, A1)) == ([False], [True])


def test_t9_aborts_of_ten_thousand_overdue_transactions_take_short_turns_of_the_loop() -> None:
    # The faster of two measurements of each turn counts: a slow turn is slow both times, but a
    # pause of the computer slows only one.
    slowest = max(map(min, *(seconds_of_turns(10_000) for _ in range(2))))
    # A turn takes 3 ms of the thread's CPU time on an idle computer.
    assert slowest < 0.05


def seconds_of_turns(count: int) -> list[float]:
    """Abort `count` overdue transactions, some in each turn. Return the CPU time of each turn."""
    world = World()
    for number in range(count):
        name = f"t{number}"
        result = value_of(world.init(name, timeout_ms=1_000))
        world.add((result.producer_id, result.producer_epoch), A0, transactional_id=name)
    world.timers.now_ms += 1_000
    aborted, seconds = 0, []
    gc.disable()  # garbage of earlier tests does not count
    try:
        while aborted < count:
            began = thread_time()
            aborted += len(world.transactions.abort_overdue(ABORTS_PER_TURN))
            seconds.append(thread_time() - began)
    finally:
        gc.enable()
    assert world.transactions.abort_overdue(ABORTS_PER_TURN) == []
    assert world.oracle(A0).end_offset == count
    return seconds


def test_t7_a_timeout_without_a_leader_completes_when_the_leader_is_back() -> None:
    world = World()
    producer = world.producer(timeout_ms=5_000)
    for partition in (A0, A1):
        world.produce(producer, partition, 0)
    world.scene.leaderless.add(A1)
    world.settle(5_000)
    assert world.transactions.abort_overdue(10) == ["t"]
    attempts = 0
    while world.now() < 56_000:
        assert world.timers.run_next(10**9)
        attempts += 1
    assert attempts <= 10 * 50
    assert state(world) is State.PREPARE_ABORT
    assert value_of(world.init()).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.scene.leaderless.clear()
    world.settle(5_000)
    assert state(world) is State.COMPLETE_ABORT
    assert [outcomes(world, partition) for partition in (A0, A1)] == [[False], [False]]


@pytest.mark.parametrize("scan", ["before the end", "while PREPARE is pending", "after the end"])
def test_t10_a_commit_around_its_timeout_is_committed_or_aborted_as_a_whole(scan: str) -> None:
    world = World(flush_on_ack=True)
    producer = world.producer(timeout_ms=1)
    response = world.add(producer, A0)
    world.settle()
    assert value_of(response).code is ErrorCode.NONE
    append, _ = world.produce(producer, A0, 0, adds_partitions=False)
    assert append.code is ErrorCode.NONE
    world.settle(5)
    if scan == "before the end":
        assert world.transactions.abort_overdue(10) == ["t"]
    ending = world.end(producer, True)
    if scan == "while PREPARE is pending":
        assert world.transactions.abort_overdue(10) == [], (
            "the scan does not abort a transaction with a pending decision"
        )
    world.settle()
    if scan == "after the end":
        assert world.transactions.abort_overdue(10) == []
    committed = value_of(ending).code is ErrorCode.NONE
    assert committed == (scan != "before the end")
    assert outcomes(world, A0) == [committed], (
        "exactly one marker, with the outcome of the response"
    )
    assert world.read(A0) == ([b"v"] if committed else [])
    world.check()


def test_T8_init_producer_id_uses_up_no_epoch_while_nothing_can_be_written() -> None:
    world = World()
    producer = opened(world, A0)
    world.files.capacity = 0
    for _ in range(50):
        assert value_of(world.init()).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.settle(60_000)
    assert world.transactions.abort_overdue(10) == []  # the scan retries later, not in a busy loop
    world.files.capacity = None
    world.init()
    assert world.producer() == (producer[0], producer[1] + 2)
