"""The work of a follower's cuts is spread over many turns of the loop."""

from __future__ import annotations

from typing import Any

from oncelog_server.log.replay import STEP_BATCHES
from oncelog_server.slices import at_its_end
from tests.server.fetcher.cluster import Node
from tests.server.fetcher.test_leader_fetcher import (
    ISR,
    about_to_cut,
    append,
    fetch_of,
    pair,
    synced,
)
from tests.server.log.driver import NOW_MS, batch, producers_of
from tests.server.storage.memory_files import bytes_read


def test_a_cut_is_found_when_the_response_is_taken_and_read_no_second_time() -> None:
    """The recovery points of all partitions are lowered in one turn of the loop."""
    _, follower = about_to_cut()
    with bytes_read() as read:
        assert not follower.fetcher.prepare_cuts()
    assert read == []


def about_to_compute_producers() -> tuple[Node, dict[int, Any]]:
    """Return a follower that must cut its last batch, and its producers before this batch."""
    first, second = pair()
    append(first, 1)
    synced(first, second)
    for sequence in range(3 * STEP_BATCHES):
        data = batch(1, producer_id=7, producer_epoch=0, base_sequence=sequence)
        first.partitions[0].append(data, NOW_MS)
    synced(first, second)
    before = producers_of(first.partitions[0]._log.producers)
    last = batch(1, producer_id=8, producer_epoch=0, base_sequence=0)
    first.partitions[0].append(last, NOW_MS)
    second.lead(1, ISR, ISR)
    first.follow(1, 1)
    request = fetch_of(first)
    at_its_end(first.fetcher.take(request, second.answer(request, first)))
    if first.fetcher.prepare_cuts():
        first.checkpoint()
    return first, before


def test_the_producers_before_a_cut_are_computed_in_steps() -> None:
    follower, before = about_to_compute_producers()
    partition = follower.partitions[0]
    end_offset = partition.log_end_offset
    steps = follower.fetcher.make_cuts()
    for _ in range(3):
        next(steps)
        assert partition.log_end_offset == end_offset
    at_its_end(steps)
    assert partition.log_end_offset == end_offset - 1
    assert producers_of(partition._log.producers) == before


def test_a_log_that_this_broker_leads_after_these_steps_is_not_cut() -> None:
    follower, _ = about_to_compute_producers()
    partition = follower.partitions[0]
    end_offset = partition.log_end_offset
    steps = follower.fetcher.make_cuts()
    next(steps)
    follower.fetcher.forget(partition)
    partition.become_leader(1, 2, (1,), ISR)
    at_its_end(steps)
    assert partition.log_end_offset == end_offset
