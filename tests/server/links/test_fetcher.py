"""A follower acknowledges only what is on its disk (oncelog.flush.on.ack)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_server.links.fetcher import FetcherLink, FetcherParts, ReplicaFetchers
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from oncelog_server.storage.files import File, StorageError
from tests.server.fetcher.cluster import SETTINGS, Node
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers

ISR = (0, 1)


class World:
    """A leader, and a follower with a disk that fails or completes each sync. `run` makes the steps
    that are due."""

    def __init__(self, sync_error: StorageError | None) -> None:
        self.leader, self.follower = Node(0, 1), Node(1, 1, flush_on_ack=True)
        self.leader.lead(0, ISR, ISR)
        (self.copy,) = self.follower.partitions
        self.copy.become_follower(0, 0)
        self.timers = ManualTimers()
        self.sync_error = sync_error
        self.due: deque[Callable[[], None]] = deque()
        self.fetch_offsets: list[int] = []
        self.parts = FetcherParts(
            1,
            lambda: 1,
            SETTINGS,
            cast(Any, SimpleNamespace(to=lambda _: self, close=lambda: None)),
            self.timers,
            cast(Any, SimpleNamespace(run=at_its_end)),
            lambda: NOW_MS,
            lambda: self.timers.now_ms,
            cast(Any, None),
            cast(Any, self),
        )

    def send(self, request: FetchRequest, _: int, answered: Callable[[Any], None]) -> None:
        self.fetch_offsets += [row.fetch_offset for t in request.topics for row in t.partitions]
        self.due.append(lambda: answered(self.leader.answer(request, self.follower)))

    def sync(self, _: list[File], done: Callable[[StorageError | None], None]) -> None:
        self.due.append(lambda: done(self.sync_error))

    def run(self, partition: Partition) -> list[ErrorCode]:
        """Append a record on the leader. Return its outcome with acks=all, after some rounds."""
        (led,) = self.leader.partitions
        outcomes: list[ErrorCode] = []
        led.when_committed(led.append(batch(), now_ms=NOW_MS).last_offset + 1, outcomes.append)
        for _ in range(20):
            self.timers.run_soon()
            if self.due:
                self.due.popleft()()
        return outcomes


def test_a_record_on_the_disk_of_the_follower_is_acknowledged() -> None:
    world = World(None)
    FetcherLink(0, world.parts).follow(world.copy)
    assert world.run(world.copy) == [ErrorCode.NONE]


def test_a_record_that_the_follower_could_not_sync_is_not_acknowledged() -> None:
    world = World(StorageError("sync", "x", "Input/output error"))
    FetcherLink(0, world.parts).follow(world.copy)
    assert world.run(world.copy) == []
    assert world.copy.offline is not None
    assert world.fetch_offsets == [0]


def test_an_offline_replica_is_not_fetched_in_a_new_epoch() -> None:
    world = World(None)
    fetchers = ReplicaFetchers(world.parts)
    world.copy.fail("disk")
    fetchers.follow(world.copy)
    assert world.run(world.copy) == []
    assert world.fetch_offsets == []


class Rolling(World):
    """The follower's log rolls during each sync."""

    def sync(self, files: list[File], done: Callable[[StorageError | None], None]) -> None:
        super().sync(files, done)
        self.copy._log.roll(NOW_MS)


def test_s16_a_record_is_not_acknowledged_before_the_sync_of_a_roll_has_ended() -> None:
    """The kernel may report an error to the sync of the roll only."""
    world = Rolling(None)
    FetcherLink(0, world.parts).follow(world.copy)
    assert world.run(world.copy) == []
    assert world.fetch_offsets == [0]
    world.follower.files.fail_sync()
    world.follower.files.settle()
    assert world.run(world.copy) == []
    assert world.copy.offline is not None
    assert world.fetch_offsets == [0]


def test_a_record_is_acknowledged_after_the_sync_of_a_roll() -> None:
    world = Rolling(None)
    FetcherLink(0, world.parts).follow(world.copy)
    (led,) = world.leader.partitions
    outcomes: list[ErrorCode] = []
    led.when_committed(1, outcomes.append)
    assert world.run(world.copy) == []
    world.follower.files.settle()
    world.run(world.copy)
    assert outcomes == [ErrorCode.NONE]


def test_a_flush_of_the_follower_commits_after_its_election() -> None:
    """The new leader has no other replica in the ISR, and no record is appended."""
    world = World(None)
    FetcherLink(0, world.parts).follow(world.copy)
    (led,) = world.leader.partitions
    led.append(batch(), now_ms=NOW_MS)
    world.timers.run_soon()
    while world.copy.log_end_offset == 0:
        world.due.popleft()()
    world.copy.become_leader(1, 1, (1,), ISR)
    assert (world.copy.high_watermark, len(world.due)) == (0, 1)
    world.due.popleft()()
    assert world.copy.high_watermark == 1
