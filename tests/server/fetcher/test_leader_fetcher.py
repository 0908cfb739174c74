"""A follower copies its leader: sessions, divergence, offsets out of range, errors and delays."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.list_offsets import ListOffsetsRequest
from oncelog_server.fetcher.leader_fetcher import FIRST_DELAY_MS, MOST_DOUBLINGS, MOST_ROWS
from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from oncelog_server.topic_partition import TopicPartition
from tests.server.fetcher.cluster import (
    SETTINGS,
    Node,
    are_equal,
    batches,
    exchange,
    places,
    until,
)
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import mark, send

ISR = (0, 1)


def pair(count: int = 1, **config: Any) -> tuple[Node, Node]:
    """Return a leader of epoch 0, and its follower, which is in the ISR."""
    leader, follower = Node(0, count, **config), Node(1, count, **config)
    leader.lead(0, ISR, ISR)
    follower.follow(0, 0)
    return leader, follower


def append(node: Node, count: int = 1, index: int = 0, times: int = 1) -> None:
    for _ in range(times):
        node.partitions[index].append(batch(count), now_ms=NOW_MS)


def synced(leader: Node, follower: Node) -> None:
    until(leader, follower, lambda: are_equal(leader, follower))


def fetch_of(node: Node) -> FetchRequest:
    request = node.fetcher.next()
    assert isinstance(request, FetchRequest)
    return request


# --- copying


def test_a_follower_gets_the_bytes_of_the_leader_and_the_high_watermark() -> None:
    leader, follower = pair(2)
    append(leader, 3, 0)
    append(leader, 2, 1, times=2)
    synced(leader, follower)
    assert [found.high_watermark for found in follower.partitions] == [3, 4]
    for index in range(2):
        assert batches(follower, index) == batches(leader, index)


def test_a_follower_knows_open_and_aborted_transactions_as_its_leader_does() -> None:
    leader, follower = pair()
    (led,), (copy,) = leader.partitions, follower.partitions
    send(led, 7, 0)
    send(led, 8, 0)
    mark(led, 7, committed=False)
    synced(leader, follower)
    assert copy.last_stable_offset == led.last_stable_offset == 1
    follower.lead(1, ISR, ISR)
    assert [entry.producer_id for entry in copy.open_transactions()] == [8]
    assert copy._log.aborted_transactions(0, 3) == led._log.aborted_transactions(0, 3)
    send(copy, 8, 1)
    assert copy._log.mismatches == 0


def test_a_follower_that_gets_records_of_a_state_that_it_does_not_have_counts_them() -> None:
    leader, follower = pair()
    (copy,) = follower.partitions
    send(leader.partitions[0], 7, 0)
    synced(leader, follower)
    entry = copy._log.producers.entry(7)
    assert entry is not None
    entry.batches.append(entry.batches[-1].__class__(5, 9, 0, NOW_MS))
    send(leader.partitions[0], 7, 1)
    synced(leader, follower)
    assert copy._log.mismatches == 1


def test_R12_a_marker_of_another_leader_ends_the_verifications_of_this_broker() -> None:
    leader, follower = pair()
    (copy,) = follower.partitions
    guard = copy.guards.begin(7)
    other = copy.guards.begin(8)
    copy.refused_sequences.refused(7, 0, 3)
    send(leader.partitions[0], 7, 0)
    mark(leader.partitions[0], 7)
    synced(leader, follower)
    assert not copy.guards.holds(7, guard)
    assert copy.guards.holds(8, other)
    assert copy.refused_sequences.lowest(7, 0) is None


def test_deleted_records_of_the_leader_are_deleted_on_the_follower() -> None:
    leader, follower = pair()
    append(leader, 4)
    synced(leader, follower)
    at_its_end(leader.partitions[0].delete_records_before(3, NOW_MS))
    synced(leader, follower)
    assert follower.partitions[0].log_start_offset == 3


# --- changes of the leader between two steps


def about_to_cut() -> tuple[Node, Node]:
    """Return the leader of epoch 1, and its follower with two logs that must be cut at offset 1."""
    leader, follower = Node(0, 2), Node(1, 2)
    follower.lead(0, ISR, ISR)
    leader.follow(1, 0)
    for index in range(2):
        append(follower, 1, index)
    synced(follower, leader)
    for index in range(2):
        append(follower, 3, index)
    leader.lead(1, ISR, ISR)
    follower.follow(0, 1)
    while not follower.fetcher.has_cuts:
        request = fetch_of(follower)
        at_its_end(follower.fetcher.take(request, leader.answer(request, follower)))
    if follower.fetcher.prepare_cuts():
        follower.checkpoint()
    return leader, follower


def test_a_log_that_this_broker_leads_by_now_is_not_cut() -> None:
    """Otherwise an acknowledged record is lost, and its offset is used again."""
    _, follower = about_to_cut()
    cuts = follower.fetcher.make_cuts()
    next(cuts)
    led = follower.partitions[1]
    follower.fetcher.forget(led)
    led.become_leader(1, 2, (1,), ISR)
    append(follower, 1, 1)
    for _ in cuts:
        pass
    assert [found.log_end_offset for found in follower.partitions] == [1, 5]
    assert led.high_watermark == 5


def test_a_follower_catches_up_after_a_new_epoch_between_two_cuts() -> None:
    leader, follower = about_to_cut()
    cuts = follower.fetcher.make_cuts()
    next(cuts)
    leader.lead(2, ISR, ISR)
    for found in follower.partitions:
        found.become_follower(0, 2)
        follower.fetcher.follow(FollowerLog(found))
    for _ in cuts:
        pass
    append(leader, 5, 1)
    synced(leader, follower)


@pytest.mark.parametrize("is_led", [True, False])
def test_the_offsets_of_a_leader_are_not_taken_after_a_change_of_the_epoch(is_led: bool) -> None:
    leader, follower = Node(0, 2), Node(1, 2)
    leader.lead(0, (0,), ISR)
    follower.follow(0, 0)
    for index in range(2):
        append(leader, 20, index, times=2)
        at_its_end(leader.partitions[index].delete_records_before(30, NOW_MS))
    request = fetch_of(follower)
    at_its_end(follower.fetcher.take(request, leader.answer(request, follower)))
    for _ in range(2):
        asked = follower.fetcher.next()
        assert isinstance(asked, ListOffsetsRequest)
        steps = follower.fetcher.take(asked, leader.answer(asked, follower))
        next(steps)
        if asked.topics[0].partitions[0].timestamp != -2:
            break
        at_its_end(steps)
    changed = follower.partitions[1]
    if is_led:
        follower.fetcher.forget(changed)
        changed.become_leader(1, 1, (1,), ISR)
    else:
        leader.lead(1, ISR, ISR)
        changed.become_follower(0, 1)
        follower.fetcher.follow(FollowerLog(changed))
    for _ in steps:
        pass
    assert {found.partition for found in follower.fetcher._cutting} == {0}


# --- sessions


def test_KIP227_only_changed_partitions_are_named_again() -> None:
    leader, follower = pair(3)
    append(leader, 1, 1)
    first = fetch_of(follower)
    assert len(first.topics[0].partitions) == 3
    follower.take(first, leader.answer(first, follower))
    synced(leader, follower)
    append(leader, 1, 2)
    exchange(leader, follower)
    request = fetch_of(follower)
    rows = [row.partition for topic in request.topics for row in topic.partitions]
    assert (rows, request.session_id > 0, request.session_epoch > 1) == ([2], True, True)


def test_a_lost_connection_begins_a_new_session_after_the_back_off() -> None:
    leader, follower = pair(2)
    exchange(leader, follower)
    request = fetch_of(follower)
    leader.answer(request, follower)  # the response is lost
    follower.take(request, None)
    assert follower.fetcher.next() is None
    assert follower.fetcher.wake_ms() == follower.now_ms + SETTINGS.backoff_ms
    follower.now_ms += SETTINGS.backoff_ms
    request = fetch_of(follower)
    assert (request.session_epoch, len(request.topics[0].partitions)) == (0, 2)
    append(leader)
    synced(leader, follower)
    assert len(leader.sessions) == 1


def test_70_71_an_unknown_session_is_replaced_at_once() -> None:
    leader, follower = pair(2)
    exchange(leader, follower)
    leader.sessions.forget(1)
    exchange(leader, follower)
    request = fetch_of(follower)
    assert (request.session_epoch, len(request.topics[0].partitions)) == (0, 2)


def test_very_many_partitions_are_added_by_several_requests() -> None:
    count = MOST_ROWS + 10
    follower = Node(1)
    (copy,) = follower.partitions
    copy.become_follower(0, 0)
    for index in range(count):
        follower.fetcher.follow(FollowerLog(_renumbered(copy, index)))
    first = fetch_of(follower)
    assert (len(first.topics[0].partitions), first.max_wait_ms) == (MOST_ROWS, 0)
    follower.take(first, FetchResponse(session_id=5))
    second = fetch_of(follower)
    assert (len(second.topics[0].partitions), second.max_wait_ms) == (10, SETTINGS.max_wait_ms)
    assert (second.session_id, second.session_epoch) == (5, 1)


def _renumbered(partition: Partition, index: int) -> Partition:
    """Return a partition with the same log and another number."""
    found = Partition(
        TopicPartition("topic", index), partition.topic_id, partition._log, lambda _: None
    )
    found.become_follower(0, 0)
    return found


# --- another leader


def test_a_response_of_an_earlier_leader_epoch_changes_nothing() -> None:
    leader, follower = pair()
    append(leader, 2)
    request = fetch_of(follower)
    response = leader.answer(request, follower)
    follower.partitions[0].become_follower(0, 1)
    follower.fetcher.follow(FollowerLog(follower.partitions[0]))
    follower.take(request, response)
    assert follower.partitions[0].log_end_offset == 0


def test_a_response_for_a_partition_that_is_not_followed_any_more_changes_nothing() -> None:
    leader, follower = pair()
    append(leader, 2)
    request = fetch_of(follower)
    response = leader.answer(request, follower)
    follower.fetcher.forget(follower.partitions[0])
    follower.take(request, response)
    assert (follower.partitions[0].log_end_offset, follower.fetcher.next()) == (0, None)


def test_74_a_follower_of_an_older_leader_epoch_waits_for_its_metadata() -> None:
    leader, follower = pair()
    leader.lead(2, ISR, ISR)
    append(leader, 2)
    exchange(leader, follower)
    assert (follower.fetcher.next(), follower.fetcher.wake_ms()) == (None, None)
    follower.follow(0, 2)
    synced(leader, follower)


def test_75_6_a_follower_that_knows_more_than_its_leader_fetches_again_soon() -> None:
    """The leader sees its election some ms later. A wait for the back-off would delay acks=all."""
    leader, follower = pair()
    follower.follow(0, 2)
    delays: list[int] = []
    for _ in range(MOST_DOUBLINGS + 2):
        exchange(leader, follower)
        assert follower.fetcher.next() is None
        wake_ms = follower.fetcher.wake_ms()
        assert wake_ms is not None
        delays.append(wake_ms - follower.now_ms)
        follower.now_ms = wake_ms
    assert delays[:3] == [FIRST_DELAY_MS, 2 * FIRST_DELAY_MS, 4 * FIRST_DELAY_MS]
    assert max(delays) == delays[-1] == SETTINGS.backoff_ms
    leader.lead(2, ISR, ISR)
    append(leader, 2)
    synced(leader, follower)
    follower.follow(0, 3)
    exchange(leader, follower)
    assert follower.fetcher.wake_ms() == follower.now_ms + FIRST_DELAY_MS


def test_a_broker_that_is_not_registered_fetches_nothing() -> None:
    _, follower = pair()
    follower.epoch = -1
    assert follower.fetcher.next() is None
    follower.epoch, follower.now_ms = 4, follower.now_ms + SETTINGS.backoff_ms
    state = fetch_of(follower).replica_state
    assert state is not None
    assert (state.replica_id, state.replica_epoch) == (1, 4)


# --- divergence


def test_KIP101_a_follower_drops_the_records_that_the_new_leader_does_not_have() -> None:
    first, second = pair()
    append(first, 2)
    synced(first, second)
    append(first, 3)  # the other broker never gets these
    second.lead(1, ISR, ISR)
    append(second, 1)
    first.follow(1, 1)
    synced(second, first)
    assert places(first) == places(second) == [(0, 1), (1, 2)]
    assert batches(first) == batches(second)


@pytest.mark.parametrize(("count", "other_count"), [(2, 1), (1, 3)])
def test_KIP279_divergence_over_several_leader_epochs_is_found_step_by_step(
    count: int, other_count: int
) -> None:
    first, second = Node(0), Node(1)
    first.lead(0, ISR, ISR)
    append(first, 2)
    second.follow(0, 0)
    synced(first, second)
    for epoch in (1, 3):  # two short terms of each broker, which the other never saw
        first.lead(epoch, (0,), ISR)
        append(first, count)
        second.lead(epoch + 1, (1,), ISR)
        append(second, other_count)
    second.lead(5, (1,), ISR)
    first.follow(1, 5)
    until(second, first, lambda: batches(first) == batches(second))
    assert list(first.partitions[0]._log.leader_epochs) == [(0, 0), (2, 2), (4, 2 + other_count)]


def test_the_recovery_points_are_on_disk_before_a_log_is_cut() -> None:
    first, second = pair()
    append(first, 2)
    synced(first, second)
    append(first, 3)
    first.partitions[0].finish_flush(first.partitions[0].begin_flush(), None)
    assert first.partitions[0].recovery_point == 5
    second.lead(1, ISR, ISR)
    first.follow(1, 1)
    request = fetch_of(first)
    for _ in first.fetcher.take(request, second.answer(request, first)):
        pass
    assert first.fetcher.has_cuts
    assert first.fetcher.next() is None
    assert first.fetcher.prepare_cuts()
    assert (first.partitions[0].recovery_point, first.partitions[0].log_end_offset) == (2, 5)
    assert not first.fetcher.prepare_cuts()
    first.cut()
    assert first.partitions[0].log_end_offset == 2


def test_without_a_checkpoint_the_log_is_cut_later() -> None:
    first, second = pair()
    append(first, 2)
    second.lead(1, ISR, ISR)
    append(second, 1)
    first.follow(1, 1)
    request = fetch_of(first)
    for _ in first.fetcher.take(request, second.answer(request, first)):
        pass
    first.fetcher.delay_cuts()
    assert (first.fetcher.has_cuts, first.fetcher.next()) == (False, None)
    synced(second, first)


def test_an_unclean_election_moves_the_high_watermark_back_and_says_so() -> None:
    first, second = pair()
    append(first, 4)
    synced(first, second)
    assert second.partitions[0].high_watermark == 4
    third = Node(2)
    third.lead(1, (2,), (0, 1, 2))
    append(third, 1)
    second.follow(2, 1)
    synced(third, second)
    assert [notice.event for notice in second.fetcher.notices] == ["committed records dropped"]
    assert batches(second) == batches(third)


# --- out of range


def test_1_a_follower_that_was_away_too_long_begins_where_the_leaders_log_begins() -> None:
    leader, follower = pair(segment_bytes=200)
    append(leader, 1)
    synced(leader, follower)
    lonely = Node(1, segment_bytes=200)
    append(leader, 1, times=20)
    follower = lonely
    leader.lead(0, (0,), ISR)
    at_its_end(leader.partitions[0].delete_records_before(15, NOW_MS))
    follower.follow(0, 0)
    synced(leader, follower)
    assert follower.partitions[0].log_start_offset == 15
    assert [place for place in places(leader) if place[1] >= 15] == places(follower)


def test_a_follower_begins_with_the_whole_batch_in_which_the_leaders_log_begins() -> None:
    leader, _ = pair()
    append(leader, 10)
    append(leader, 10)
    leader.lead(0, (0,), ISR)
    at_its_end(leader.partitions[0].delete_records_before(14, NOW_MS))
    follower = Node(1)
    follower.follow(0, 0)
    synced(leader, follower)
    assert (follower.partitions[0].log_start_offset, places(follower)) == (14, [(0, 19)])


def test_an_offset_beyond_the_leaders_log_is_cut_to_its_end() -> None:
    """The leader does not know the epoch of the follower's last record any more."""
    leader, follower = Node(0), Node(1)
    follower.lead(5, (1,), ISR)
    append(follower, 1, times=4)
    leader.lead(3, (0,), ISR)
    append(leader, 2)
    for node in (leader, follower):
        for partition in node.partitions:
            partition.leader_epoch = 6
    leader.partitions[0].is_leader = True
    follower.follow(0, 6)
    kinds = [type(exchange(leader, follower)) for _ in range(3)]
    assert kinds == [FetchRequest, ListOffsetsRequest, ListOffsetsRequest]
    assert follower.partitions[0].log_end_offset == 2


# --- errors


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        999,
    ],
)
def test_another_error_delays_its_partition_only(code: int) -> None:
    leader, follower = pair(2)
    append(leader, 1, 0)
    append(leader, 1, 1)
    request = fetch_of(follower)
    response = leader.answer(request, follower)
    response.responses[0].partitions[0].error_code = code
    follower.take(request, response)
    assert [found.log_end_offset for found in follower.partitions] == [0, 1]
    request = fetch_of(follower)
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    follower.take(request, leader.answer(request, follower))
    synced(leader, follower)


def test_a_refused_fetch_delays_all_partitions() -> None:
    leader, follower = pair(2)
    request = fetch_of(follower)
    refused = FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    follower.take(request, refused)
    assert follower.fetcher.next() is None
    assert [notice.reason for notice in follower.fetcher.notices] == [
        "CLUSTER_AUTHORIZATION_FAILED"
    ]
    synced(leader, follower)


@pytest.mark.parametrize("position", [20, 70])
def test_a_batch_that_was_damaged_on_its_way_is_not_appended(position: int) -> None:
    leader, follower = pair()
    append(leader, 2)
    request = fetch_of(follower)
    response = leader.answer(request, follower)
    data = response.responses[0].partitions[0]
    damaged = bytearray(data.records)
    damaged[position] ^= 1
    data.records = damaged
    follower.take(request, response)
    assert follower.partitions[0].log_end_offset == 0
    assert [notice.event for notice in follower.fetcher.notices] == ["leader sends a wrong batch"]
    synced(leader, follower)


def test_b24_a_full_disk_delays_the_follower() -> None:
    leader, follower = pair()
    append(leader, 2)
    follower.files.fail_append(match=".log")
    exchange(leader, follower)
    assert (follower.partitions[0].log_end_offset, follower.fetcher.next()) == (0, None)
    synced(leader, follower)


def test_the_lag_is_known_after_the_first_response() -> None:
    leader, follower = pair()
    assert follower.fetcher.max_lag == -1
    append(leader, 3)
    leader.lead(0, (0,), ISR)
    (partition,) = follower.partitions
    assert follower.fetcher.lag_of(partition) == -1
    exchange(leader, follower)
    assert follower.fetcher.max_lag == follower.fetcher.lag_of(partition) == 0
    follower.fetcher.forget(partition)
    assert follower.fetcher.lag_of(partition) == -1


# --- scenarios


def test_b1_a_record_is_on_the_follower_whose_fetch_has_committed_it() -> None:
    """The leader is killed after the fetch that has committed the record, and before the response
    to the producer and to the follower."""
    leader, follower = pair()
    append(leader, 2)
    exchange(leader, follower)
    request = fetch_of(follower)
    leader.answer(request, follower)
    assert leader.partitions[0].high_watermark == 2
    follower.take(request, None)
    follower.lead(1, (1,), ISR)
    assert (follower.partitions[0].high_watermark, places(follower)) == (2, [(0, 1)])


def test_b7_a_new_leader_with_a_lower_high_watermark_refuses_no_consumer_and_commits_later() -> (
    None
):
    leader, follower = pair()
    third = Node(2)
    append(leader, 2)
    synced(leader, follower)
    append(leader, 2)
    exchange(leader, follower)  # the follower has the records, and does not know that they count
    follower.lead(1, (1, 2), (0, 1, 2))
    led = follower.partitions[0]
    assert (led.high_watermark, led.log_end_offset) == (2, 4)
    read = led.read(4, 1_000, Isolation.READ_UNCOMMITTED, at_least_one=True)
    assert (read.high_watermark, read.records) == (2, None)
    third.follow(1, 1)
    synced(follower, third)
    assert led.high_watermark == 4


def test_l8_a_follower_is_truncated_below_an_abort_marker_and_catches_up() -> None:
    first, second = pair()
    (led,), (copy,) = first.partitions, second.partitions
    send(led, 7, 0)
    synced(first, second)
    send(led, 8, 0)
    mark(led, 7, committed=False)  # the follower never gets these two
    assert led._log.aborted_transactions(0, 9)
    second.lead(1, ISR, ISR)
    send(copy, 9, 0)
    first.follow(1, 1)
    until(second, first, lambda: led.log_end_offset == copy.log_end_offset == 2)
    assert led._log.aborted_transactions(0, 9) == []
    assert [entry.producer_id for entry in led.open_transactions()] == [7, 9]
    mark(copy, 7, committed=False)
    mark(copy, 9)
    synced(second, first)
    assert batches(first) == batches(second)
    assert led._log.aborted_transactions(0, 9) == copy._log.aborted_transactions(0, 9) != []
    assert led.last_stable_offset == copy.last_stable_offset == 4
