"""A broker leads nothing once its registration may have ended, from the first request on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.authority import Authority
from oncelog_server.deferred import Deferred, Unheard
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.requests.response import Parts
from oncelog_server.requests.session import Session
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.self_fencing import CheckedRequests, CheckedTimers, SelfFencing
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition, refusal, waiter
from tests.server.replication.brokers import cluster
from tests.server.storage.memory_files import MemoryFiles

TTL_MS = 9_000
# 1 % of the TTL for the drift of the clocks, and the margin of 200 ms.
VALID_MS = 8_710
SESSION = Session(ANONYMOUS, "127.0.0.1", "PLAINTEXT", lambda: False)


class World:
    """A broker that leads one partition. Its clock and its timers are apart, as after a pause."""

    def __init__(self, led: Partition) -> None:
        self.now_ms = 0
        self.timers = ManualTimers()
        self.authority = Authority()
        self.partitions = Partitions()
        self.partitions.add(led)
        self.led = led
        # Partitions with another leader in the image, while the change is not made yet.
        self.deposed: set[Partition] = set()
        self.fencing = SelfFencing(
            self.authority,
            self.partitions,
            self.timers,
            lambda: self.now_ms,
            lambda found: found not in self.deposed,
        )

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.timers.advance(by_ms)


class Served:
    """Notes whether the partition led at the time of each request."""

    def __init__(self, led: Partition) -> None:
        self.led = led
        self.seen: list[bool] = []

    def serve(self, frame: memoryview, session: Session) -> Parts | Deferred[Parts] | None:
        self.seen.append(self.led.is_leader)
        return None


@pytest.fixture
def world() -> World:
    return World(partition())


def test_before_its_registration_a_broker_leads_nothing(world: World) -> None:
    assert not world.led.is_leader
    world.authority.renew(0, TTL_MS)
    assert world.led.is_leader


def test_a_leader_that_the_image_has_replaced_does_not_act_again(world: World) -> None:
    """The changes of an image are made in slices, and the registration is renewed meanwhile."""
    other = partition(name=TopicPartition("topic", 1))
    world.partitions.add(other)
    world.authority.renew(0, TTL_MS)
    world.advance(VALID_MS)
    world.deposed.add(other)
    world.authority.renew(world.now_ms, TTL_MS)
    assert (world.led.is_leader, other.is_leader) == (True, False)
    assert refusal(other.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    other.become_follower(2, 1)
    other.become_leader(0, 2, (0,), (0,), is_suspended=world.partitions.is_suspended)
    assert other.is_leader


def test_without_a_keepalive_the_broker_stops_before_its_lease_ends(world: World) -> None:
    world.authority.renew(0, TTL_MS)
    world.advance(VALID_MS - 1)
    assert world.led.is_leader
    world.advance(1)
    assert refusal(world.led.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_keepalives_keep_the_leadership_with_one_timer_at_a_time(world: World) -> None:
    for _ in range(10):
        world.authority.renew(world.now_ms, TTL_MS)
        world.advance(2_000)
        assert world.led.is_leader
        assert len(world.timers.waiting) == 1


def test_after_a_pause_the_first_request_finds_the_end_before_a_timer_does(world: World) -> None:
    world.authority.renew(0, TTL_MS)
    served = Served(world.led)
    requests = CheckedRequests(served, world.fencing)
    requests.serve(memoryview(b""), SESSION)
    world.now_ms = VALID_MS  # no timer has fired
    requests.serve(memoryview(b""), SESSION)
    assert served.seen == [True, False]


def test_after_a_pause_a_finished_flush_acknowledges_nothing() -> None:
    files = MemoryFiles()
    flush = GroupFlush(files)
    world = World(partition(files, flush=flush, flush_on_ack=True))
    flush.before_callbacks = world.fencing.check
    world.authority.renew(0, TTL_MS)
    world.led.append(batch(), now_ms=NOW_MS)
    waiting = waiter(world.led, 1)
    world.now_ms = VALID_MS
    files.settle()
    assert waiting == []


def test_after_a_pause_a_timer_of_a_request_finds_the_end_before_that_of_the_authority() -> None:
    """A parked Fetch reads the log at its end, and Produce may append."""
    world = World(partition())
    world.authority.renew(0, TTL_MS)
    seen: list[bool] = []
    timers = CheckedTimers(world.timers, world.fencing)
    timers.call_later(100, lambda: seen.append(world.led.is_leader))
    timers.call_later(200, lambda: seen.append(world.led.is_leader)).cancel()
    world.now_ms = VALID_MS
    world.timers.advance(200)
    assert seen == [False]


def test_a_late_keepalive_lets_the_broker_lead_again(world: World) -> None:
    world.authority.renew(0, TTL_MS)
    world.advance(VALID_MS)
    assert not world.led.is_leader
    world.authority.renew(world.now_ms, TTL_MS)
    assert world.led.is_leader
    world.advance(VALID_MS)
    assert not world.led.is_leader


def test_the_end_of_the_lease_ends_the_leadership_at_once(world: World) -> None:
    world.authority.renew(0, TTL_MS)
    world.authority.end()
    assert not world.led.is_leader


def test_a_defect_of_a_waiting_request_does_not_reach_the_renewal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The renewal of a registration calls `check`, which completes requests that wait."""
    unheard: list[Exception] = []
    monkeypatch.setattr(Unheard, "take", unheard.append)
    defect = RuntimeError("a defect of a request")

    def settled(code: ErrorCode) -> None:
        raise defect

    files = MemoryFiles()
    flush = GroupFlush(files)
    world = World(partition(files, flush=flush, flush_on_ack=True))
    world.authority.renew(0, TTL_MS)
    world.led.append(batch(), now_ms=NOW_MS)
    world.led.commit_waiters.wait(1, settled)
    world.authority.end()
    files.settle()
    assert unheard == []
    world.authority.renew(0, TTL_MS)
    assert world.led.is_leader
    assert unheard == [defect]


def test_after_the_stop_nothing_changes(world: World) -> None:
    world.authority.renew(0, TTL_MS)
    world.fencing.stop()
    world.authority.end()
    world.advance(2 * TTL_MS)
    assert world.led.is_leader


async def test_the_timers_of_a_broker_s_requests_look_at_its_authority(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as found:
        broker = found.brokers[1]
        fencing = broker._self_fencing
        assert fencing is not None
        assert not broker.partitions.is_suspended
        # The process was paused beyond the end of its registration.
        fencing._boottime_ms = lambda: broker.metadata.membership.authority.valid_until_ms + 1
        elapsed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        broker.services.timers.call_later(
            0, lambda: elapsed.set_result(broker.partitions.is_suspended)
        )
        assert await elapsed
