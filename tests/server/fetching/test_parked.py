"""A parked Fetch: some events wake it and others do not. It leaves no state behind (L6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.parked import HIGH_WATERMARK_DELAY_MS, ParkedFetch
from oncelog_server.fetching.read import FetchResult, read_partitions
from oncelog_server.fetching.unread import Unread
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import mark, partition
from tests.server.storage.memory_files import MemoryFiles

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
WAIT_MS = 500
SIZE = len(batch())


class Reader:
    """A reader that waits at the ends of two partitions."""

    def __init__(
        self, isolation: Isolation = RU, min_bytes: int = 1, *, flush_on_ack: bool = False
    ) -> None:
        self.files = MemoryFiles()
        self.partitions = [
            partition(self.files, TopicPartition("topic", index), flush_on_ack=flush_on_ack)
            for index in range(2)
        ]
        self.timers = ManualTimers()
        self.reads = 0
        self.min_bytes = min_bytes
        self.isolation = isolation
        # Makes the response.
        self.respond: Callable[[FetchResult], FetchResult] = lambda found: found

    def park(self) -> ParkedFetch[FetchResult]:
        wanted = [
            FetchedPartition(PartitionKey("topic", index), led.end_offset(self.isolation), 10_000)
            for index, led in enumerate(self.partitions)
        ]

        def read() -> FetchResult:
            self.reads += 1
            return at_its_end(
                read_partitions(
                    wanted, lambda key: self.partitions[key.partition], self.isolation, 10_000
                )
            )

        return ParkedFetch(
            self.partitions,
            read,
            self.respond,
            min_bytes=self.min_bytes,
            max_wait_ms=WAIT_MS,
            timers=self.timers,
        )

    @property
    def is_released(self) -> bool:
        return not self.timers.waiting and not any(led.read_waiters for led in self.partitions)


def open_transaction(led: Partition) -> None:
    data = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    led.append(data, now_ms=NOW_MS)


def test_an_append_wakes_it() -> None:
    reader = Reader()
    parked = reader.park()
    reader.partitions[1].append(batch(), now_ms=NOW_MS)
    assert not parked.answer.done  # the broker sends no response in the middle of an append
    reader.timers.run_soon()
    assert parked.answer.value.size == SIZE
    assert reader.is_released


def test_many_appends_of_one_turn_wake_it_once() -> None:
    reader = Reader()
    parked = reader.park()
    for _ in range(10):
        for led in reader.partitions:
            led.append(batch(), now_ms=NOW_MS)
    reader.timers.run_soon()
    assert (reader.reads, parked.answer.value.size) == (1, 20 * SIZE)


def test_it_waits_for_as_many_bytes_as_it_wants() -> None:
    reader = Reader(min_bytes=2 * SIZE)
    parked = reader.park()
    reader.partitions[0].append(batch(), now_ms=NOW_MS)
    reader.timers.run_soon()
    assert not parked.answer.done
    reader.partitions[1].append(batch(), now_ms=NOW_MS)
    reader.timers.run_soon()
    assert parked.answer.value.size == 2 * SIZE


def test_at_its_timeout_it_gets_the_available_records() -> None:
    reader = Reader(min_bytes=2 * SIZE)
    parked = reader.park()
    reader.partitions[0].append(batch(), now_ms=NOW_MS)
    reader.timers.advance(WAIT_MS - 1)
    assert not parked.answer.done
    reader.timers.advance(1)
    assert parked.answer.value.size == SIZE
    assert reader.is_released
    reader.timers.run_soon()  # no timer is left that would respond a second time


@pytest.mark.parametrize("time_is_up", [True, False])
def test_a_read_that_fails_fails_its_request_and_leaves_nothing(time_is_up: bool) -> None:
    """A defect must not let a client wait forever for a response (A5)."""
    reader = Reader()
    parked = reader.park()
    failures: list[Exception | None] = []
    parked.answer.on_abandon(lambda: failures.append(parked.answer.failure))
    reader.partitions, kept = [], reader.partitions
    if time_is_up:
        reader.timers.advance(WAIT_MS)
    else:
        kept[0].append(batch(), now_ms=NOW_MS)
        reader.timers.run_soon()
    assert [type(failure) for failure in failures] == [IndexError]
    reader.partitions = kept
    assert reader.is_released


def test_a_response_that_fails_fails_its_request_and_leaves_nothing() -> None:
    reader = Reader()

    def respond(_: FetchResult) -> FetchResult:
        raise ValueError

    reader.respond = respond
    parked = reader.park()
    failures: list[Exception | None] = []
    parked.answer.on_abandon(lambda: failures.append(parked.answer.failure))
    reader.timers.advance(WAIT_MS)
    assert [type(failure) for failure in failures] == [ValueError]
    assert reader.is_released


@pytest.mark.parametrize("committed", [True, False])
def test_L6_only_the_marker_wakes_a_read_committed_reader(
    committed: bool,
) -> None:
    reader = Reader(RC)
    parked = reader.park()
    open_transaction(reader.partitions[0])
    reader.partitions[0].append(batch(), now_ms=NOW_MS)
    reader.timers.run_soon()
    assert not parked.answer.done
    mark(reader.partitions[0], 7, committed=committed)
    reader.timers.run_soon()
    read = parked.answer.value.partitions[0].read
    assert read is not None
    assert read.aborted is not None
    assert [row.first_offset for row in read.aborted] == ([] if committed else [0])
    assert read.last_stable_offset == 3


def test_L6_with_flush_on_ack_a_reader_wakes_when_the_marker_is_on_disk() -> None:
    reader = Reader(RC, flush_on_ack=True)
    parked = reader.park()
    open_transaction(reader.partitions[0])
    reader.files.settle()
    mark(reader.partitions[0], 7)
    reader.timers.run_soon()
    assert not parked.answer.done
    reader.files.settle()
    reader.timers.run_soon()
    assert parked.answer.done


def lose_leadership(led: Partition) -> None:
    led.become_follower(1, 1)


def lose_disk(led: Partition) -> None:
    led.fail("fsync")


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (Partition.resign, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lose_leadership, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lose_disk, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
    ids=["deleted", "moved", "failed"],
)
def test_a_partition_that_is_no_longer_served_wakes_it(
    event: Callable[[Partition], None], code: ErrorCode
) -> None:
    reader = Reader()
    parked = reader.park()
    event(reader.partitions[1])
    reader.timers.run_soon()
    assert [led.code for led in parked.answer.value.partitions] == [ErrorCode.NONE, code]
    assert reader.is_released


def test_records_deleted_from_under_a_reader_wake_it() -> None:
    reader = Reader(RC)
    open_transaction(reader.partitions[0])
    parked = reader.park()  # at the last stable offset, 0
    at_its_end(reader.partitions[0].delete_records_before(1, NOW_MS))
    reader.timers.run_soon()
    assert parked.answer.value.partitions[0].code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_I19_a_client_that_hangs_up_leaves_nothing_behind() -> None:
    reader = Reader()
    parked = reader.park()
    reader.partitions[0].append(batch(), now_ms=NOW_MS)
    parked.answer.cancel()
    assert reader.is_released
    reader.timers.run_soon()
    assert not parked.answer.done
    assert reader.reads == 0


class Follower:
    """Followers 1 and 2 of one partition. Follower 1 waits at the leader's log end."""

    def __init__(self) -> None:
        self.led = partition(isr=(0, 1, 2), replicas=(0, 1, 2))
        self.timers = ManualTimers()

    def read(self, broker_id: int, unread: Unread, *, is_repeated: bool = False) -> FetchResult:
        follower = FetchingFollower(broker_id, 5, 5, NOW_MS, is_repeated=is_repeated)
        return at_its_end(
            read_partitions(unread.rows(), lambda key: self.led, RU, 10_000, follower, unread)
        )

    def fetch(self, broker_id: int, offset: int) -> tuple[FetchResult, Unread]:
        row = FetchedPartition(PartitionKey("topic", 0), offset, 10_000, follower_high_watermark=0)
        unread = Unread(broker_id, [row], NOW_MS, lasts=False)
        return self.read(broker_id, unread), unread

    def has_record(self) -> None:
        """Let follower 2 fetch behind the first record."""
        self.fetch(2, 1)[1].close()

    def park(self, offset: int) -> ParkedFetch[FetchResult]:
        first, unread = self.fetch(1, offset)
        return ParkedFetch(
            [],
            lambda: self.read(1, unread, is_repeated=True),
            lambda found: found,
            min_bytes=1,
            max_wait_ms=WAIT_MS,
            timers=self.timers,
            unread=unread,
            has_newer_high_watermark=first.has_newer_high_watermark,
        )

    @property
    def is_released(self) -> bool:
        return not (self.timers.waiting or self.led.read_waiters or self.led.follower_waiters)


@pytest.mark.parametrize("is_known_at_once", [True, False])
def test_KIP1166_a_follower_learns_a_new_high_watermark_soon(is_known_at_once: bool) -> None:
    """Follower 1 or follower 2 is the last one to have the record, so the high watermark advances
    before or after the Fetch of follower 1 is parked."""
    follower = Follower()
    follower.led.append(batch(), now_ms=NOW_MS)
    if is_known_at_once:
        follower.has_record()
    parked = follower.park(1)
    follower.has_record()
    assert follower.led.high_watermark == 1
    follower.timers.advance(HIGH_WATERMARK_DELAY_MS - 1)
    assert not parked.answer.done
    follower.timers.advance(1)
    (found,) = parked.answer.value.partitions
    assert found.read is not None
    assert (found.read.high_watermark, found.read.records) == (1, None)
    assert follower.is_released


def test_KIP1166_the_next_records_bring_the_high_watermark() -> None:
    """A response for the high watermark alone would cost a broker under load a cycle of requests
    for each record."""
    follower = Follower()
    follower.led.append(batch(), now_ms=NOW_MS)
    parked = follower.park(1)
    follower.has_record()
    follower.led.append(batch(), now_ms=NOW_MS)
    follower.timers.run_soon()
    (found,) = parked.answer.value.partitions
    assert found.read is not None
    assert (found.read.high_watermark, parked.answer.value.size) == (1, SIZE)
    assert follower.is_released


def test_a_follower_that_knows_the_high_watermark_waits() -> None:
    follower = Follower()
    parked = follower.park(0)
    follower.timers.advance(WAIT_MS - 1)
    assert not parked.answer.done
    follower.timers.advance(1)
    assert parked.answer.value.size == 0


@pytest.mark.parametrize("event", [Partition.resign, lose_leadership, lose_disk])
def test_a_partition_that_is_no_longer_served_wakes_its_follower(
    event: Callable[[Partition], None],
) -> None:
    follower = Follower()
    parked = follower.park(0)
    event(follower.led)
    follower.timers.advance(HIGH_WATERMARK_DELAY_MS)
    assert parked.answer.value.partitions[0].code is not ErrorCode.NONE
    assert follower.is_released
