"""Producers of a partition as operators see them, and what they keep from readers (KIP-664)."""

from __future__ import annotations

from oncelog_protocol.messages.describe_producers import ProducerState
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.producers import describe_producers
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import mark, partition, send
from tests.server.storage.memory_files import MemoryFiles


def held(one: Partition) -> dict[int, tuple[int, int]]:
    """Records and bytes by producer id."""
    return {
        state.producer_id: (state.held_records, state.held_bytes)
        for state in describe_producers(one)
        if state.held_records >= 0
    }


def test_a_producer_is_shown_with_its_last_batch_and_its_open_transaction() -> None:
    one = partition()
    send(one, 7, 0, count=3, epoch=2)
    size = one.log.size_bytes
    (state,) = describe_producers(one)
    stamp = state.last_timestamp
    assert state == ProducerState(7, 2, 2, stamp, -1, 0, held_records=3, held_bytes=size)
    mark(one, 7, epoch=3, coordinator_epoch=5)
    (state,) = describe_producers(one)
    assert state == ProducerState(7, 3, -1, NOW_MS, 5, -1)


def test_the_first_open_transaction_holds_what_comes_after_it_of_any_producer() -> None:
    one = partition()
    send(one, 7, 0)
    first = one.log.size_bytes
    send(one, 8, 0)
    one.append(batch(1), now_ms=NOW_MS)
    everything = one.log.size_bytes
    assert held(one) == {7: (3, everything), 8: (2, everything - first)}
    mark(one, 7)
    assert held(one) == {8: (3, one.log.size_bytes - first)}


def test_l9_what_retention_deleted_is_held_by_no_transaction() -> None:
    one = partition()
    send(one, 7, 0)
    send(one, 7, 1)
    one.delete_records_before(1, NOW_MS)
    assert held(one)[7] == (1, one.log.size_bytes // 2)


def test_bytes_are_counted_across_segments_and_after_a_restart() -> None:
    files = MemoryFiles()
    one = partition(files, segment_bytes=200)
    for sequence in range(6):
        send(one, 7, sequence)
    assert len(one.log.segments) > 2
    assert held(one) == {7: (6, one.log.size_bytes)}
    again = partition(files, segment_bytes=200)
    assert held(again) == {7: (6, one.log.size_bytes)}


def test_nothing_unflushed_is_counted_as_held() -> None:
    """Readers of uncommitted records would not see it either."""
    one = partition(flush_on_ack=True)
    send(one, 7, 0)
    assert held(one)[7][0] == 0
