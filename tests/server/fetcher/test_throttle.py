"""A throttle limits the bytes of a follower that catches up, and no others (KIP-73)."""

from __future__ import annotations

import pytest

from oncelog_server.fetcher.leader_fetcher import MOST_HELD_MS, FetchSettings
from oncelog_server.quotas.replication import EVERY, ReplicationQuota, Throttled
from oncelog_server.quotas.windows import WINDOWS
from tests.server.fetcher.cluster import TOPIC, Node, are_equal, exchange, until
from tests.server.log.driver import NOW_MS, batch

RATE = 20_000
BATCH = 1_000
SECONDS = 10
STEP_MS = 10
# A response has one batch.
SMALL = FetchSettings(500, 1, BATCH, BATCH, 1_000)


def pair(count: int = 1) -> tuple[Node, Node]:
    """Return a leader, and a follower outside of the ISR."""
    leader, follower = Node(0, count), Node(1, count)
    follower.settings = SMALL
    leader.lead(1, (0,), (0, 1))
    return leader, follower


def fill(leader: Node, size: int, index: int = 0) -> None:
    """Append about `size` bytes."""
    partition = leader.partitions[index]
    end = partition.size_bytes + size
    while partition.size_bytes < end:
        partition.append(batch(size=BATCH - 100), now_ms=NOW_MS)


def quota(node: Node, partitions: Throttled = EVERY, limit: int = RATE) -> ReplicationQuota:
    made = ReplicationQuota(lambda: node.now_ms, WINDOWS)
    made.limit = limit
    made.throttle({TOPIC: partitions})
    return made


def step(leader: Node, follower: Node) -> bool:
    """Exchange messages. Return True if the follower has more records. Otherwise, let time pass."""
    before = sum(partition.log_end_offset for partition in follower.partitions)
    exchange(leader, follower)
    if sum(partition.log_end_offset for partition in follower.partitions) > before:
        return True
    leader.now_ms += STEP_MS
    follower.now_ms += STEP_MS
    return False


def catch_up_s(leader: Node, follower: Node) -> float:
    """Return the time until the follower has all records."""
    start_ms = follower.now_ms
    while follower.partitions[0].log_end_offset < leader.partitions[0].log_end_offset:
        step(leader, follower)
        assert follower.now_ms - start_ms < 60_000
    return (follower.now_ms - start_ms) / 1_000


@pytest.mark.parametrize("side", ["leader", "follower", "both"])
def test_a_follower_catches_up_at_the_rate(side: str) -> None:
    leader, follower = pair()
    fill(leader, RATE * SECONDS)
    if side != "follower":
        leader.sending = quota(leader)
    if side != "leader":
        follower.fetching = quota(follower)
    follower.follow(0, 1)
    assert catch_up_s(leader, follower) == pytest.approx(SECONDS, rel=0.1)
    leader.lead(1, (0, 1), (0, 1))
    until(leader, follower, lambda: are_equal(leader, follower))


def test_without_a_throttle_no_time_passes() -> None:
    leader, follower = pair()
    fill(leader, RATE * SECONDS)
    leader.sending = quota(leader, limit=10**9)
    follower.follow(0, 1)
    assert catch_up_s(leader, follower) < 0.1


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_other_partitions_are_not_held_back(side: str) -> None:
    leader, follower = pair(count=2)
    for index in (0, 1):
        fill(leader, RATE * SECONDS, index)
    if side == "leader":
        leader.sending = quota(leader, frozenset({0}))
    else:
        follower.fetching = quota(follower, frozenset({0}))
    follower.settings = FetchSettings(500, 1, 2 * BATCH, BATCH, 1_000)
    follower.follow(0, 1)
    start_ms = follower.now_ms
    while follower.partitions[1].log_end_offset < leader.partitions[1].log_end_offset:
        step(leader, follower)
    assert follower.now_ms - start_ms < 100
    # The bytes of the other partition do not count.
    assert RATE - BATCH <= follower.partitions[0].size_bytes <= RATE + 2 * BATCH


def test_a_leader_never_holds_back_a_follower_of_the_isr_but_counts_its_bytes() -> None:
    """Acknowledged records wait for the ISR, so a throttle would stop the producers."""
    leader, follower = pair()
    leader.lead(1, (0, 1), (0, 1))
    leader.sending = quota(leader)
    fill(leader, RATE * SECONDS)
    follower.follow(0, 1)
    assert catch_up_s(leader, follower) < 0.1
    assert leader.sending.is_exceeded()


def test_a_follower_in_sync_fetches_while_its_rate_is_exceeded() -> None:
    leader, follower = pair()
    leader.lead(1, (0, 1), (0, 1))
    follower.fetching = quota(follower)
    follower.follow(0, 1)
    for _ in range(3):
        exchange(leader, follower)
    follower.fetching.record(RATE * SECONDS)
    assert follower.fetching.is_exceeded()
    fill(leader, 5 * BATCH)
    assert catch_up_s(leader, follower) < 0.1


def test_a_follower_notices_within_a_second_that_the_throttle_has_ended() -> None:
    leader, follower = pair()
    fill(leader, RATE * SECONDS)
    follower.fetching = quota(follower, limit=1)
    follower.follow(0, 1)
    while step(leader, follower):
        pass
    wake_ms = follower.fetcher.wake_ms()
    assert wake_ms is not None
    assert 0 < wake_ms - follower.now_ms <= MOST_HELD_MS
    follower.fetching.limit = None
    assert catch_up_s(leader, follower) <= MOST_HELD_MS / 1_000 + 0.1


def test_a_throttled_fetch_still_tells_the_leader_what_the_follower_has() -> None:
    leader, follower = pair()
    fill(leader, 3 * BATCH)
    leader.sending = quota(leader, limit=1)
    follower.follow(0, 1)
    for _ in range(3):
        exchange(leader, follower)
    assert leader.sending.is_exceeded()
    end = follower.partitions[0].log_end_offset
    assert 0 < end < leader.partitions[0].log_end_offset
    assert leader.partitions[0].replicas._followers[1].log_end_offset == end
