"""A Fetch of many partitions reads them in several turns of the loop. It misses no change of a
partition between the read of that partition and its wait for changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.fetch import FetchLimits, fetch
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.parked import HIGH_WATERMARK_DELAY_MS
from oncelog_server.fetching.read import FetchResult
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.slices import SMALL, Slices, Steps, at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition

LEADER, FOLLOWER, OTHER = 0, 1, 2
WAIT_MS = 500
STEPS_PER_SLICE = 10


class LargeFetch:
    """A Fetch of empty partitions, of a consumer or of follower 1. A first slice has read the first
    partitions; others are not read yet."""

    def __init__(self, *, is_follower: bool, max_wait_ms: int = WAIT_MS) -> None:
        self.timers = ManualTimers()
        self.slices = Slices(
            self.timers, lambda: self.timers.now_ms, steps_per_slice=STEPS_PER_SLICE
        )
        replicas = (LEADER, FOLLOWER, OTHER) if is_follower else (LEADER,)
        self.partitions = [
            partition(isr=replicas, replicas=replicas) for _ in range(SMALL + 5 * STEPS_PER_SLICE)
        ]
        self.found = self.partitions
        rows = [
            FetchedPartition(PartitionKey("t", index), 0, 10_000, 0 if is_follower else -1)
            for index in range(len(self.partitions))
        ]
        self.sessions = FetchSessions(10, lambda: 7)
        self.follower = FetchingFollower(FOLLOWER, 5, 5, 0) if is_follower else None
        scope = self.sessions.scope(
            0, 0, rows, [], principal=ANONYMOUS, uses_topic_ids=True, now_ms=0,
            replica_id=FOLLOWER if is_follower else -1,
        )  # fmt: skip
        self.reading: Any = self.slices.run(
            fetch(
                rows,
                self,
                Isolation.READ_UNCOMMITTED,
                FetchLimits(1, 1 << 20, max_wait_ms),
                outcome,
                timers=self.timers,
                slices=self.slices,
                follower=self.follower,
                unread=scope.unread,
            )
        )
        assert isinstance(self.reading, Deferred)
        assert not self.reading.done

    def find(self, key: PartitionKey) -> Partition:
        found = self.partitions[key.partition]
        if not found.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def park(self) -> Deferred[tuple[int, bool]]:
        """End the first read, and all work that begins at once. Return the response."""
        self.timers.run_soon()
        assert isinstance(self.reading, Deferred)
        parked = self.reading.value
        assert isinstance(parked, Deferred)
        return parked

    @property
    def waiters(self) -> int:
        return sum(
            len(found.read_waiters.wakes)
            + (0 if found.follower_waiters is None else len(found.follower_waiters.wakes))
            for found in self.partitions
        )


def outcome(found: FetchResult) -> Steps[tuple[int, bool]]:
    """Return the size of the response, and True if a partition has an error."""
    for _ in found.partitions:
        yield
    return found.size, any(result.code for result in found.partitions)


def append(found: Partition) -> None:
    found.append(batch(), NOW_MS)


@pytest.mark.parametrize("is_follower", [False, True])
def test_an_append_to_a_partition_that_is_read_ends_the_fetch(is_follower: bool) -> None:
    large = LargeFetch(is_follower=is_follower)
    append(large.partitions[0])
    assert large.park().value == (len(batch()), False)
    assert large.timers.now_ms < WAIT_MS


@pytest.mark.parametrize("is_follower", [False, True])
def test_the_end_of_a_leadership_ends_the_fetch(is_follower: bool) -> None:
    large = LargeFetch(is_follower=is_follower)
    large.partitions[0].resign()
    parked = large.park()
    if is_follower:
        large.timers.advance(HIGH_WATERMARK_DELAY_MS)
    assert parked.value == (0, True)


def test_a_new_high_watermark_ends_the_fetch_of_a_follower_soon() -> None:
    large = LargeFetch(is_follower=True)
    read = large.partitions[0]
    read.become_leader(LEADER, 0, (LEADER,), (LEADER, FOLLOWER, OTHER))
    parked = large.park()
    large.timers.advance(HIGH_WATERMARK_DELAY_MS - 1)
    assert not parked.done
    large.timers.advance(1)
    assert parked.done


@pytest.mark.parametrize("is_follower", [False, True])
def test_a_change_of_a_partition_that_is_not_read_yet_does_not_end_the_wait(
    is_follower: bool,
) -> None:
    """The read finds this change."""
    large = LargeFetch(is_follower=is_follower)
    at_its_end(large.partitions[-1].delete_records_before(0, NOW_MS))
    parked = large.park()
    large.timers.advance(WAIT_MS - 1)
    assert not parked.done
    large.timers.advance(1)
    assert parked.value == (0, False)


@pytest.mark.parametrize("change", [append, Partition.resign])
@pytest.mark.parametrize("max_wait_ms", [0, WAIT_MS])
def test_a_follower_with_a_response_watches_no_changed_partition(
    change: Callable[[Partition], None], max_wait_ms: int
) -> None:
    """The follower may never fetch again, and a deleted partition must not stay in memory."""
    large = LargeFetch(is_follower=True, max_wait_ms=max_wait_ms)
    before = large.partitions[0]
    change(before)
    large.timers.run_soon()
    large.timers.advance(WAIT_MS)
    change(before)
    assert not before.read_waiters
    assert not before.follower_waiters
    assert not large.timers.waiting


def test_a_cancelled_read_leaves_nothing() -> None:
    large = LargeFetch(is_follower=False)
    assert large.waiters
    assert isinstance(large.reading, Deferred)
    large.reading.cancel()
    large.timers.run_soon()
    assert not large.waiters
