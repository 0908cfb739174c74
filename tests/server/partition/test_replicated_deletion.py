"""DeleteRecords waits until every live replica has deleted the records (KIP-107)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.follower_fetch import FetchingFollower, record_fetch
from oncelog_server.partition.replicated_deletion import (
    Deletion,
    DeletionOutcome,
    ReplicatedDeletion,
)
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition, send

TIMEOUT_MS = 100
LATE = DeletionOutcome(-1, ErrorCode.REQUEST_TIMED_OUT)


class World:
    """A leader, broker 0, with the followers 1 and 2. `alive` are the live brokers."""

    def __init__(self) -> None:
        self.led = partition(isr=(0, 1, 2), replicas=(0, 1, 2))
        send(self.led, 7, 0, count=10)
        self.alive = {0, 1, 2}
        self.timers = ManualTimers()
        for follower in (1, 2):
            self.fetched(follower, 0)

    def fetched(self, follower: int, log_start: int) -> None:
        fetching = FetchingFollower(follower, -1, -1, NOW_MS)
        record_fetch(self.led, fetching, self.led.log_end_offset, log_start)

    def delete(self, *offsets: int) -> ReplicatedDeletion:
        for offset in offsets:
            at_its_end(self.led.delete_records_before(offset, NOW_MS))
        deletions = [Deletion(self.led, offset) for offset in offsets]
        return ReplicatedDeletion(deletions, self.alive.__contains__, TIMEOUT_MS, self.timers)

    def waits(self) -> bool:
        return bool(self.timers.waiting) or bool(self.led.deletion_waiters)


def test_the_response_waits_for_the_last_follower() -> None:
    world = World()
    answer = world.delete(4).answer
    world.fetched(1, 4)
    world.fetched(2, 3)
    assert not answer.done
    world.fetched(2, 5)
    assert answer.value == [DeletionOutcome(4, ErrorCode.NONE)]
    assert not world.waits()


def test_a_follower_on_a_dead_broker_does_not_count() -> None:
    world = World()
    world.alive.remove(2)
    answer = world.delete(4).answer
    world.fetched(1, 4)
    assert answer.value == [DeletionOutcome(4, ErrorCode.NONE)]


def test_records_that_all_replicas_have_deleted_are_no_reason_to_wait() -> None:
    world = World()
    at_its_end(world.led.delete_records_before(6, NOW_MS))
    world.fetched(1, 6)
    world.fetched(2, 5)
    assert world.delete(3).answer.value == [DeletionOutcome(5, ErrorCode.NONE)]
    assert not world.waits()


def test_a_follower_that_is_late_makes_the_request_time_out() -> None:
    world = World()
    answer = world.delete(2, 4).answer
    world.fetched(1, 4)
    world.fetched(2, 2)
    world.timers.now_ms += TIMEOUT_MS
    world.timers.waiting[0].callback()
    assert answer.value == [DeletionOutcome(2, ErrorCode.NONE), LATE]
    assert not world.waits()


@pytest.mark.parametrize("offline", [False, True])
def test_a_leader_that_loses_its_partition_does_not_wait(offline: bool) -> None:
    world = World()
    answer = world.delete(4).answer
    if offline:
        world.led.fail("disk")
    else:
        world.led.become_follower(1, 1)
    code = ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.value == [DeletionOutcome(-1, code)]
    assert not world.waits()


def test_a_parked_fetch_that_fails_keeps_no_deletion_waiting() -> None:
    world = World()
    answer = world.delete(4).answer
    world.led.read_waiters.add(lambda: 1 // 0)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        world.led.become_follower(1, 1)
    assert answer.value == [DeletionOutcome(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_nothing_is_left_of_a_request_that_is_cancelled() -> None:
    world = World()
    world.delete(4).answer.cancel()
    assert not world.waits()
    world.fetched(1, 4)
    world.fetched(2, 4)
