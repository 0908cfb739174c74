"""A Fetch of records that are only on the disk does not read them on the event loop."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.cold_ranges import DISK_WAITS, LEAST_WAIT_MS, MOST_RANGES
from oncelog_server.fetching.fetch import FetchLimits, fetch
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import FetchResult
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import SMALL, Slices, Steps, at_its_end
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition
from tests.server.storage.memory_files import MemoryFiles

SIZE = len(batch())
BATCHES = 12


class Reader:
    """A reader of partitions on one disk. Each has an old segment, with index, and a new one."""

    def __init__(self, partitions: int = 1) -> None:
        self.files = MemoryFiles()
        self.timers = ManualTimers()
        self.slices = Slices(self.timers, lambda: self.timers.now_ms, steps_per_slice=10)
        # Followers are allowed to read, so there are two replicas.
        self.found = [
            partition(
                self.files,
                TopicPartition("t", number),
                replicas=(0, 1),
                segment_bytes=10 * SIZE,
                index_interval_bytes=1,
            )
            for number in range(partitions)
        ]
        for filled in self.found:
            for _ in range(BATCHES):
                filled.append(batch(), now_ms=NOW_MS)
        self.files.settle()

    def log(self, number: int) -> str:
        return f"t-{number}/{0:020}.log"

    def index(self, number: int) -> str:
        return f"t-{number}/{0:020}.index"

    def settle(self) -> None:
        """Let everything arrive that is read from the disk."""
        for _ in range(2 * DISK_WAITS):
            self.files.settle()
            self.timers.run_soon()
        assert not self.files.pending

    def forget_indexes(self) -> None:
        for found in self.found:
            found._log.segments[0].forget_indexes()

    def find(self, key: PartitionKey) -> Partition:
        return self.found[key.partition]

    def fetch(
        self,
        *offsets: int,
        min_bytes: int = 1,
        max_wait_ms: int = 1_000,
        follower: FetchingFollower | None = None,
    ) -> list[int] | Deferred[list[int]]:
        """Return the sizes of the records in the response, in the order of the partitions. The size
        is a negative error code if the partition has an error."""
        steps = fetch(
            [
                FetchedPartition(PartitionKey("t", number), offset, 10_000)
                for number, offset in enumerate(offsets or [1] * len(self.found))
            ],
            self,
            Isolation.READ_COMMITTED,
            FetchLimits(min_bytes, 100_000, max_wait_ms),
            _sizes,
            timers=self.timers,
            slices=self.slices,
            follower=follower,
        )
        return at_its_end(steps)


def _sizes(found: FetchResult) -> Steps[list[int]]:
    sizes = []
    for result in found.partitions:
        yield
        if result.read is None:
            sizes.append(-result.code)
        else:
            sizes.append(0 if result.read.records is None else len(result.read.records))
    return sizes


@pytest.mark.parametrize("file", [Reader.log, Reader.index])
@pytest.mark.parametrize("follower", [None, FetchingFollower(1, -1, -1, NOW_MS)])
def test_a_fetch_waits_for_a_prefetch_and_reads_nothing_before(
    file: object, follower: FetchingFollower | None
) -> None:
    reader = Reader()
    reader.forget_indexes()
    path = reader.log(0) if file is Reader.log else reader.index(0)
    reader.files.cold.add(path)
    reader.files.fail_reads(path)
    response = reader.fetch(follower=follower)
    assert isinstance(response, Deferred)
    assert not response.done
    assert reader.files.prefetched == [path]
    reader.files.fail_reads("")
    reader.settle()
    assert response.value == [9 * SIZE]
    assert reader.files.prefetched == [path]


def test_a_fetch_waits_for_the_index_and_then_for_the_log() -> None:
    reader = Reader()
    reader.forget_indexes()
    reader.files.cold |= {reader.log(0), reader.index(0)}
    response = reader.fetch()
    reader.settle()
    assert isinstance(response, Deferred)
    assert response.value == [9 * SIZE]
    assert reader.files.prefetched == [reader.index(0), reader.log(0)]


def test_records_in_memory_do_not_wait_for_records_on_the_disk() -> None:
    """The next Fetch finds the other records."""
    reader = Reader(3)
    reader.files.cold.add(reader.log(1))
    assert reader.fetch() == [9 * SIZE, 0, 9 * SIZE]
    assert reader.files.prefetched == [reader.log(1)]
    reader.settle()
    assert reader.fetch() == [9 * SIZE] * 3


def test_a_fetch_of_more_bytes_than_are_in_memory_waits() -> None:
    reader = Reader(2)
    reader.files.cold.add(reader.log(0))
    response = reader.fetch(min_bytes=10 * SIZE)
    assert isinstance(response, Deferred)
    reader.settle()
    assert response.value == [9 * SIZE] * 2


def test_a_fetch_without_a_minimum_of_bytes_waits_too() -> None:
    """A response without records would look like the end of the partition."""
    reader = Reader()
    reader.files.cold.add(reader.log(0))
    response = reader.fetch(min_bytes=0)
    assert isinstance(response, Deferred)
    reader.settle()
    assert response.value == [9 * SIZE]


def test_the_newest_records_need_no_look_at_the_disk() -> None:
    reader = Reader()
    reader.files.cold |= set(reader.files.nodes)
    assert reader.fetch(BATCHES - 1) == [SIZE]
    assert isinstance(reader.fetch(BATCHES), Deferred)
    assert reader.files.prefetched == []


def test_with_too_little_memory_the_records_are_read_after_some_waits() -> None:
    """They leave the page cache before the Fetch is repeated. It must end nevertheless."""
    reader = Reader()
    reader.files.cold.add(reader.log(0))
    reader.files.has_short_memory = True
    response = reader.fetch()
    reader.settle()
    assert isinstance(response, Deferred)
    assert response.value == [9 * SIZE]
    assert reader.files.prefetched == [reader.log(0)] * DISK_WAITS


def test_a_fetch_of_many_cold_partitions_is_repeated_in_slices_and_reads_few_at_once() -> None:
    reader = Reader(SMALL + 1)
    reader.files.cold |= {reader.log(number) for number in range(SMALL + 1)}
    response = reader.fetch()
    assert isinstance(response, Deferred)
    assert len(reader.files.prefetched) == MOST_RANGES
    reader.files.settle()
    assert not response.done
    reader.timers.run_turn()
    assert not response.done
    reader.timers.run_soon()
    sizes = response.value
    assert sizes == [9 * SIZE] * MOST_RANGES + [0] * (SMALL + 1 - MOST_RANGES)


def test_an_append_during_the_wait_is_not_delayed() -> None:
    """A follower in sync in one partition may be far behind in another. Its producers must not
    wait for the disk."""
    reader = Reader(2)
    reader.files.cold.add(reader.log(0))
    response = reader.fetch(1, BATCHES)
    assert isinstance(response, Deferred)
    reader.found[1].append(batch(), now_ms=NOW_MS)
    reader.timers.run_soon()
    assert response.value == [0, SIZE]
    assert reader.files.prefetched == [reader.log(0)]
    reader.settle()
    assert not reader.timers.waiting


@pytest.mark.parametrize(("max_wait_ms", "expected_ms"), [(0, LEAST_WAIT_MS), (2_000, 2_000)])
def test_a_fetch_waits_for_a_slow_disk_until_its_time_is_up(
    max_wait_ms: int, expected_ms: int
) -> None:
    reader = Reader()
    reader.files.cold.add(reader.log(0))
    response = reader.fetch(min_bytes=0, max_wait_ms=max_wait_ms)
    assert isinstance(response, Deferred)
    assert not reader.timers.run_next(expected_ms - 1)
    assert reader.timers.run_next(expected_ms)
    assert response.value == [0]
    # The next Fetch does not have the same bytes read again while they arrive.
    reader.settle()
    assert reader.fetch() == [9 * SIZE]


def test_a_cancelled_fetch_is_not_repeated() -> None:
    reader = Reader()
    reader.files.cold.add(reader.log(0))
    response = reader.fetch()
    assert isinstance(response, Deferred)
    response.cancel()
    reader.files.fail_reads(reader.log(0))
    reader.settle()
    assert not reader.timers.waiting


def test_a_read_that_fails_after_the_prefetch_is_an_error_of_the_partition() -> None:
    reader = Reader()
    reader.files.cold.add(reader.log(0))
    response = reader.fetch()
    assert isinstance(response, Deferred)
    reader.files.fail_reads(reader.log(0))
    reader.settle()
    assert response.value == [-ErrorCode.KAFKA_STORAGE_ERROR]
