"""A follower acknowledges only what is on its disk (oncelog.flush.on.ack)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_server.deferred import Deferred
from oncelog_server.fetcher.leader_fetcher import FetcherRequest
from oncelog_server.links.fetcher import FetcherLink, FetcherParts, ReplicaFetchers
from oncelog_server.log.replicated import Batches
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from oncelog_server.storage.files import File, StorageError
from tests.server.fetcher.cluster import SETTINGS, Node, until
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers

ISR = (0, 1)


class World:
    """A leader, and a follower with a disk that fails or completes each sync, or holds all syncs.
    `run` makes the steps that are due."""

    def __init__(self, sync_error: StorageError | None) -> None:
        self.leader, self.follower = Node(0, 1), Node(1, 1, flush_on_ack=True)
        self.leaders = {0: self.leader}
        self.leader.lead(0, ISR, ISR)
        (self.copy,) = self.follower.partitions
        self.copy.become_follower(0, 0)
        self.timers = ManualTimers()
        self.sync_error = sync_error
        self.due: deque[Callable[[], None]] = deque()
        self.fetch_offsets: list[int] = []
        # Syncs that have not ended, None if each sync ends.
        self.held: list[Callable[[], None]] | None = None
        self.parts = FetcherParts(
            1,
            lambda: 1,
            SETTINGS,
            cast(Any, SimpleNamespace(to=self.link, close=lambda: None)),
            self.timers,
            cast(Any, SimpleNamespace(run=at_its_end)),
            lambda: NOW_MS,
            lambda: self.timers.now_ms,
            _written,
            cast(Any, self),
        )

    def link(self, leader_id: int) -> SimpleNamespace:
        return SimpleNamespace(send=partial(self.send, self.leaders[leader_id]))

    def send(
        self, leader: Node, request: FetcherRequest, _: int, answered: Callable[[Any], None]
    ) -> None:
        if isinstance(request, FetchRequest):
            self.fetch_offsets += [row.fetch_offset for t in request.topics for row in t.partitions]
        self.due.append(lambda: answered(leader.answer(request, self.follower)))

    def sync(self, _: list[File], done: Callable[[StorageError | None], None]) -> None:
        due = self.due if self.held is None else self.held
        due.append(lambda: done(self.sync_error))

    def another_leader(self, epoch: int) -> Node:
        """Return another broker that leads, with the records that the leader has. Its high
        watermark moves when the follower of this world has acknowledged them."""
        other = self.leaders[2] = Node(2, 1)
        other.follow(self.leader.broker_id, self.leader.partitions[0].leader_epoch)
        until(self.leader, other, lambda: ends(other) == ends(self.leader))
        other.lead(epoch, (1, 2), (0, 1, 2))
        return other

    def run(self, partition: Partition) -> list[ErrorCode]:
        """Append a record on the leader. Return its outcome with acks=all, after some rounds."""
        (led,) = self.leader.partitions
        outcomes: list[ErrorCode] = []
        led.when_committed(led.append(batch(), now_ms=NOW_MS).last_offset + 1, outcomes.append)
        self.run_due()
        return outcomes

    def run_due(self) -> None:
        for _ in range(20):
            self.timers.run_soon()
            if self.due:
                self.due.popleft()()

    def end_syncs(self, *, holds_next: bool = False) -> None:
        """The disk ends the held syncs."""
        held, self.held = self.held or [], [] if holds_next else None
        self.due.extend(held)
        self.run_due()


def _written() -> Deferred[StorageError | None]:
    """Write the checkpoint of all logs."""
    written: Deferred[StorageError | None] = Deferred()
    written.complete(None)
    return written


def ends(node: Node) -> int:
    return node.partitions[0].log_end_offset


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
    assert not world.due, "the log is synced again"


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


def test_a_new_leader_gets_no_acknowledgement_while_the_sync_for_the_last_leader_runs() -> None:
    world = World(None)
    world.leader.lead(0, (0, 1, 2), (0, 1, 2))
    fetchers = ReplicaFetchers(world.parts)
    world.held = []
    fetchers.follow(world.copy)
    world.run(world.copy)
    assert (world.copy.log_end_offset, world.copy.recovery_point) == (1, 0)
    other = world.another_leader(1)
    world.copy.become_follower(2, 1)
    fetchers.follow(world.copy)
    world.run_due()
    assert (world.fetch_offsets, other.partitions[0].high_watermark) == ([0], 0)
    world.end_syncs()
    assert (world.copy.recovery_point, other.partitions[0].high_watermark) == (1, 1)


def test_a_former_leader_acknowledges_its_records_when_they_are_on_its_disk() -> None:
    """The group flush of its time as the leader has not ended."""
    world = World(None)
    world.copy.become_leader(1, 1, (1, 2), (1, 2))
    world.copy.append(batch(), now_ms=NOW_MS)
    world.leader, world.follower = world.follower, world.leader
    other = world.another_leader(2)
    world.leader, world.follower = world.follower, world.leader
    assert (ends(other), world.copy.recovery_point) == (1, 0)
    world.held = []
    world.copy.become_follower(2, 2)
    ReplicaFetchers(world.parts).follow(world.copy)
    world.run_due()
    assert (world.fetch_offsets, other.partitions[0].high_watermark) == ([], 0)
    world.end_syncs()
    assert world.fetch_offsets == [], "the group flush, which overlapped, has not ended"
    world.follower.files.settle()
    world.run_due()
    assert (world.copy.recovery_point, other.partitions[0].high_watermark) == (1, 1)


def test_a_former_leader_with_a_failed_flush_acknowledges_nothing() -> None:
    """The sync of the follower succeeds, but it proves nothing after the failure (S16)."""
    world = World(None)
    world.copy.become_leader(1, 1, (1, 2), (1, 2))
    world.copy.append(batch(), now_ms=NOW_MS)
    flush = world.copy.begin_flush()
    world.copy.become_follower(0, 2)
    ReplicaFetchers(world.parts).follow(world.copy)
    world.copy.finish_flush(flush, StorageError("sync", "x", "Input/output error"))
    world.run_due()
    assert world.copy.offline is not None
    assert world.fetch_offsets == []


def test_an_append_that_fails_halfway_is_not_acknowledged_before_its_sync() -> None:
    world = World(None)
    FetcherLink(0, world.parts).follow(world.copy)
    log = world.copy._log
    append = log.append_replicated

    def fail_halfway(records: Batches, **given: Any) -> None:
        append(records, **given)
        raise StorageError("write", "x", "No space left on device")

    with patch.object(log, "append_replicated", fail_halfway):
        world.run(world.copy)
    assert (world.copy.log_end_offset, world.fetch_offsets) == (1, [0])
    world.held = []
    world.timers.advance(SETTINGS.backoff_ms)
    world.run_due()
    assert world.fetch_offsets == [0]
    world.end_syncs()
    assert (world.fetch_offsets[:2], world.copy.recovery_point) == ([0, 1], 1)


def test_the_records_of_a_log_that_begins_again_are_synced_before_the_next_fetch() -> None:
    """The start of the leader's log is within a batch, which the second cut appends."""
    world = World(None)
    (led,) = world.leader.partitions
    led.append(batch(count=10), now_ms=NOW_MS)
    led.replicas.update((0,), ISR, 0)
    led.recompute_high_watermark()
    at_its_end(led.delete_records_before(5, NOW_MS))
    world.held = []
    FetcherLink(0, world.parts).follow(world.copy)
    world.run_due()
    assert world.copy.log_end_offset == 5
    world.end_syncs(holds_next=True)
    assert world.copy.log_end_offset == 10
    assert 10 not in world.fetch_offsets
    world.end_syncs()
    assert (world.fetch_offsets[-1], world.copy.recovery_point) == (10, 10)
