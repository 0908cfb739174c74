"""The conditions under which a Fetch responds at once or waits."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.fetch import FetchLimits, fetch
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import FetchResult
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.slices import SMALL, Slices, Steps, at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition

SIZE = len(batch())
WAIT_MS = 500


class Reader:
    """A reader of a topic's partitions. Each partition holds one batch."""

    def __init__(self, partitions: int = 1) -> None:
        self.timers = ManualTimers()
        self.slices = Slices(self.timers, lambda: self.timers.now_ms, steps_per_slice=10)
        self.partitions = [partition() for _ in range(partitions)]
        for filled in self.partitions:
            filled.append(batch(), now_ms=NOW_MS)
        self.found: list[Partition] = []

    def find(self, key: PartitionKey) -> Partition:
        if key.partition >= len(self.partitions):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.found = self.partitions
        return self.partitions[key.partition]

    def fetch(
        self,
        offset: int,
        *,
        min_bytes: int = 1,
        max_bytes: int = 10_000,
        max_wait_ms: int = WAIT_MS,
        also: int | None = None,
    ) -> int | Deferred[int]:
        """Return the size of the records in the response. `also` is an additional partition."""
        asked = [*range(len(self.partitions)), *([] if also is None else [also])]
        steps = fetch(
            [FetchedPartition(PartitionKey("t", index), offset, 10_000) for index in asked],
            self,
            Isolation.READ_UNCOMMITTED,
            FetchLimits(min_bytes, max_bytes, max_wait_ms),
            _size,
            timers=self.timers,
            slices=self.slices,
        )
        return at_its_end(steps)

    def append(self) -> None:
        self.partitions[0].append(batch(), now_ms=NOW_MS)
        self.timers.run_soon()


def _size(found: FetchResult) -> Steps[int]:
    for _ in found.partitions:
        yield
    return found.size


def test_a_response_with_min_bytes_is_sent_at_once() -> None:
    assert Reader().fetch(0) == SIZE
    assert Reader(2).fetch(0, min_bytes=2 * SIZE) == 2 * SIZE


def test_a_reader_does_not_wait_for_more_than_max_bytes() -> None:
    """The broker lowers `min_bytes` to `max_bytes`. Else the reader would wait until its
    timeout."""
    assert Reader().fetch(0, min_bytes=10 * SIZE, max_bytes=SIZE) == SIZE


def test_a_reader_that_cannot_wait_gets_the_available_records() -> None:
    assert Reader().fetch(1, max_wait_ms=0) == 0


def test_an_error_is_sent_at_once() -> None:
    assert Reader().fetch(1, also=7) == 0


def test_a_fetch_without_partitions_does_not_wait() -> None:
    reader = Reader(0)
    assert reader.fetch(0) == 0
    assert not reader.timers.waiting


@pytest.mark.parametrize("partitions", [1, SMALL + 1])
def test_a_reader_at_the_end_waits_for_an_append(partitions: int) -> None:
    reader = Reader(partitions)
    response = reader.fetch(1)
    assert isinstance(response, Deferred)
    assert not response.done
    reader.append()
    assert response.value == SIZE
    assert not reader.timers.waiting


@pytest.mark.parametrize("partitions", [1, SMALL + 1])
def test_a_cancelled_fetch_leaves_no_timer_and_no_waiter(partitions: int) -> None:
    reader = Reader(partitions)
    response = reader.fetch(1)
    assert isinstance(response, Deferred)
    response.cancel()
    assert not reader.timers.waiting
    assert not any(waited.read_waiters for waited in reader.partitions)


def test_reads_and_responses_of_many_partitions_are_made_in_slices() -> None:
    """A slice has ten steps here, so that a read or a response of 101 partitions needs ten turns of
    the loop."""
    reader = Reader(SMALL + 1)
    response = reader.fetch(1)
    assert isinstance(response, Deferred)
    reader.partitions[0].append(batch(), now_ms=NOW_MS)
    turns = 0
    while not response.done:
        reader.timers.run_turn()
        turns += 1
    assert turns > 2 * SMALL / 10
    assert response.value == SIZE
