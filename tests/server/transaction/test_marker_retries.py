"""The pauses of the coordinator between two attempts to write a marker (T7)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.completion import FINISHED_PER_TURN, RETRY_MAX_MS, RETRY_MS
from oncelog_server.transaction.marker_delivery import MarkerSettled
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import TransactionMetadata, to_record
from oncelog_server.transaction.states import State
from tests.server.transaction.scenes import opened, outcomes, state
from tests.server.transaction.world import A0, A1, World, value_of

ATTEMPTS = 12
SECOND_MS = 1_000


class Refusing:
    """A leader that refuses every marker at once, and records the times."""

    is_local = False

    def __init__(self, world: World, code: ErrorCode) -> None:
        self.world = world
        self.code = code
        self.times_ms: list[int] = []

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        self.times_ms.append(self.world.now())
        for partition in partitions:
            settled(partition, self.code)


def run_until(world: World, ended: Callable[[], bool]) -> None:
    """Run timers until `ended` returns True. Fail if more timers fire than a back-off allows."""
    for _ in range(ATTEMPTS * 3):
        if ended():
            return
        assert world.timers.run_next(world.now() + 10 * RETRY_MAX_MS)
    pytest.fail("timers fire without end")


def is_back_off(times_ms: list[int]) -> bool:
    """Return True if the pauses grow from the shortest pause to the longest, and then stay the
    longest."""
    pauses = [later - earlier for earlier, later in pairwise(times_ms)]
    return (
        pauses == sorted(pauses)
        and pauses[0] >= RETRY_MS
        and pauses[0] < RETRY_MAX_MS
        and pauses[-3:] == [RETRY_MAX_MS] * 3
    )


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_T7_markers_that_a_leader_refuses_are_retried_with_back_off(code: ErrorCode) -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = leader = Refusing(world, code)
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    run_until(world, lambda: len(leader.times_ms) == ATTEMPTS)
    assert is_back_off(leader.times_ms)
    first_s = leader.times_ms[0] + SECOND_MS
    assert sum(time_ms <= first_s for time_ms in leader.times_ms) <= 10
    # The other partition has exactly one marker.
    assert outcomes(world, A0) == [True]
    del world.scene.remote[A1]
    world.settle(RETRY_MAX_MS)
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A1) == [True]


def test_T7_a_new_coordinator_begins_with_the_shortest_back_off() -> None:
    world = World()
    producer = opened(world, A0)
    world.scene.leaderless.add(A0)
    value_of(world.end(producer, False))
    world = world.crash()
    world.scene.remote[A0] = leader = Refusing(world, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    started_ms = world.now()
    run_until(world, lambda: len(leader.times_ms) == ATTEMPTS)
    assert leader.times_ms[0] == started_ms
    assert is_back_off(leader.times_ms)
    assert state(world) is State.PREPARE_ABORT


def test_a_failed_append_of_the_COMPLETE_record_is_retried_with_back_off() -> None:
    world = World()
    producer = opened(world, A0)
    world.files.fail_append(2, match=TRANSACTION_STATE)  # PREPARE is written
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    times_ms = [world.now()]
    while len(times_ms) < ATTEMPTS:
        world.files.fail_append(match=TRANSACTION_STATE)
        run_until(world, lambda: world.files.append_fault is None)
        times_ms.append(world.now())
    assert is_back_off(times_ms)
    assert state(world) is State.PREPARE_COMMIT
    world.settle(RETRY_MAX_MS)
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A0) == [True]


def test_a_change_of_the_metadata_retries_many_transactions_in_several_turns() -> None:
    world = World()
    _, shard = world.transactions.owner("t")
    count = 2 * FINISHED_PER_TURN + 1
    for number in range(count):
        prepared = TransactionMetadata(
            f"t{number}", number, 0, 60_000, State.PREPARE_COMMIT, frozenset({A1}),
            last_update_ms=5, start_ms=5,
        )  # fmt: skip
        shard.replay(to_record(prepared), offset=number, transaction=None)
    world.scene.remote[A1] = leader = Refusing(world, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    completion = world.transactions._completion
    for work in shard.marker_works():
        completion.finish_later(shard, work, 1)
    armed = [retry.timer for retry in completion._retries]
    completion.retry_now()
    completion.retry_now()  # another change, in the same turn
    turns = []
    while len(leader.times_ms) < count:
        before = len(leader.times_ms)
        due, world.timers.soon = world.timers.soon, []
        for callback in due:
            callback()
        turns.append(len(leader.times_ms) - before)
    assert max(turns) == FINISHED_PER_TURN
    assert len(armed) == count
    assert not any(timer in world.timers.waiting for timer in armed)
