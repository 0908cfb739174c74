"""A leader serves its followers: they read up to the log end, and their fetches move the high
watermark."""

from __future__ import annotations

import msgspec
import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.fetched_partition import (
    HIGH_WATERMARK_UNUSED,
    FetchedPartition,
    PartitionKey,
)
from oncelog_server.fetching.read import FetchResult, PartitionResult, read_partitions
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition, waiter

KEY = PartitionKey("topic", 0)
FOLLOWER = FetchingFollower(1, 5, 5, NOW_MS)
NONE = ErrorCode.NONE


def led(appended: int = 3, *, leader_epoch: int = 0) -> Partition:
    """Return a partition with followers 1 and 2, both in the ISR."""
    found = partition(isr=(0, 1, 2), replicas=(0, 1, 2))
    if leader_epoch:
        found.become_leader(0, leader_epoch, (0, 1, 2), (0, 1, 2))
    if appended:
        found.append(batch(appended), now_ms=NOW_MS)
    return found


def read(
    leader: Partition,
    offset: int,
    follower: FetchingFollower | None = FOLLOWER,
    *,
    leader_epoch: int = 0,
    last_fetched_epoch: int = -1,
    high_watermark: int = HIGH_WATERMARK_UNUSED,
) -> FetchResult:
    wanted = FetchedPartition(
        KEY, offset, 1 << 20, leader_epoch, last_fetched_epoch, high_watermark
    )
    return at_its_end(
        read_partitions([wanted], lambda key: leader, Isolation.READ_COMMITTED, 1 << 20, follower)
    )


def only(result: FetchResult) -> PartitionResult:
    (found,) = result.partitions
    return found


def fetched(leader: Partition, *offsets: int) -> None:
    """Let the followers 1, 2, … fetch from these offsets."""
    for broker_id, offset in enumerate(offsets, 1):
        read(leader, offset, msgspec.structs.replace(FOLLOWER, broker_id=broker_id))


def test_a_follower_reads_records_that_are_not_committed() -> None:
    leader = led()
    found = only(read(leader, 0))
    assert found.read is not None
    assert (found.read.high_watermark, found.read.records is None) == (0, False)
    consumed = only(read(leader, 0, None))
    assert consumed.read is not None
    assert consumed.read.records is None


def test_the_fetches_of_the_isr_commit_records_and_the_response_has_the_new_high_watermark() -> (
    None
):
    leader = led()
    codes = waiter(leader, 3)
    fetched(leader, 3)
    assert (leader.high_watermark, codes) == (0, [])
    found = only(read(leader, 3, msgspec.structs.replace(FOLLOWER, broker_id=2)))
    assert (leader.high_watermark, codes) == (3, [NONE])
    assert found.read is not None
    assert found.read.high_watermark == 3


def test_a_fetch_that_was_parked_counts_with_its_first_read_only() -> None:
    leader = led()
    fetched(leader, 3, 0)
    leader.append(batch(), now_ms=NOW_MS)
    before = leader.replicas.out_of_sync(4, NOW_MS, 10)
    read(leader, 3, msgspec.structs.replace(FOLLOWER, now_ms=NOW_MS + 100).repeated())
    assert before == ()
    assert leader.replicas.out_of_sync(4, NOW_MS + 11, 10) == (1, 2)


def test_a_parked_fetch_does_not_count_after_a_later_fetch_from_a_lower_offset() -> None:
    leader = led()
    fetched(leader, 3)
    fetched(leader, 2)  # on the follower's next connection, after the follower has cut its log
    leader.append(batch(), now_ms=NOW_MS)
    read(leader, 3, FOLLOWER.repeated())
    assert leader.replicas.lag(1, leader.log_end_offset) == 2


@pytest.mark.parametrize("offset", [-1, 4])
def test_1_an_offset_outside_of_the_log_is_refused_and_does_not_count(offset: int) -> None:
    leader = led()
    result = read(leader, offset)
    assert (only(result).code, result.is_urgent) == (ErrorCode.OFFSET_OUT_OF_RANGE, True)
    assert leader.replicas.lag(1, 3) is None


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [
        pytest.param(0, ErrorCode.UNKNOWN_LEADER_EPOCH, id="the leader may lack a reassignment"),
        pytest.param(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="no epoch in the request"),
    ],
)
@pytest.mark.parametrize("broker_id", [0, 3])
def test_a_broker_without_a_replica_is_refused(
    broker_id: int, leader_epoch: int, code: ErrorCode
) -> None:
    other = msgspec.structs.replace(FOLLOWER, broker_id=broker_id)
    assert only(read(led(), 0, other, leader_epoch=leader_epoch)).code is code


@pytest.mark.parametrize(
    ("request_epoch", "alive_epoch", "code"),
    [
        pytest.param(5, 5, NONE, id="the present registration"),
        pytest.param(4, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="an earlier registration"),
        pytest.param(6, 5, NONE, id="a registration that the leader has not seen"),
        pytest.param(4, -1, NONE, id="the broker is not alive"),
        pytest.param(-1, 5, NONE, id="a request without the epoch"),
    ],
)
def test_b9_a_fetch_of_an_earlier_registration_does_not_count(
    request_epoch: int, alive_epoch: int, code: ErrorCode
) -> None:
    leader = led()
    follower = FetchingFollower(1, request_epoch, alive_epoch, NOW_MS)
    assert only(read(leader, 3, follower)).code is code
    assert (leader.replicas.lag(1, 3) is None) is (code is not NONE)


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH), (2, NONE)],
)
def test_b3_74_75_only_a_fetch_of_this_leader_epoch_counts(
    leader_epoch: int, code: ErrorCode
) -> None:
    leader = led(leader_epoch=2)
    assert only(read(leader, 3, leader_epoch=leader_epoch)).code is code
    assert (leader.replicas.lag(1, 3) is None) is (code is not NONE)


def test_a_follower_with_a_log_that_differs_gets_the_place_and_does_not_count() -> None:
    leader = led()
    leader.become_leader(0, 4, (0, 1, 2), (0, 1, 2))
    leader.append(batch(2), now_ms=NOW_MS)
    result = read(leader, 5, leader_epoch=4, last_fetched_epoch=2)
    assert (only(result).diverging, result.is_urgent) == ((0, 3), True)
    assert leader.replicas.lag(1, 5) is None


def test_a_later_read_of_a_fetch_without_leader_epoch_checks_the_log_again() -> None:
    """In another leader epoch, the leader's log may differ from what the first read has seen."""
    leader = led(3)
    leader.become_leader(0, 4, (0, 1, 2), (0, 1, 2))
    leader.append(batch(2), now_ms=NOW_MS)
    result = read(leader, 5, FOLLOWER.repeated(), leader_epoch=-1, last_fetched_epoch=2)
    assert only(result).diverging == (0, 3)


@pytest.mark.parametrize(
    ("known", "is_newer"),
    [(HIGH_WATERMARK_UNUSED, False), (3, False), (2, True), (-1, True)],
)
def test_KIP1166_a_follower_behind_the_high_watermark_is_recognized(
    known: int, is_newer: bool
) -> None:
    leader = led()
    fetched(leader, 3, 3)
    assert read(leader, 3, high_watermark=known).has_newer_high_watermark is is_newer


def test_KIP1166_a_high_watermark_that_was_sent_is_known() -> None:
    leader = led()
    fetched(leader, 3, 3)
    wanted = FetchedPartition(KEY, 3, 1 << 20, 0, follower_high_watermark=0)

    def result() -> FetchResult:
        return at_its_end(
            read_partitions(
                [wanted], lambda key: leader, Isolation.READ_COMMITTED, 1 << 20, FOLLOWER
            )
        )

    first = result()
    only(first).mark_sent()
    assert (first.has_newer_high_watermark, result().has_newer_high_watermark) == (True, False)
