"""The producers of a partition in DescribeProducers, and the records that open transactions hold
back from readers (KIP-664)."""

from __future__ import annotations

from oncelog_server.partition.partition import Partition
from oncelog_server.partition.producers import describe_producers
from oncelog_server.slices import at_its_end
from oncelog_server.views.partitions import ProducerView
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import mark, partition, send
from tests.server.storage.memory_files import MemoryFiles


def held(replica: Partition) -> dict[int, tuple[int, int]]:
    """Return, by producer id, the number of held records and their bytes."""
    return {
        found.producer_id: (found.held_records, found.held_bytes)
        for found in describe_producers(replica)
        if found.held_records is not None and found.held_bytes is not None
    }


def test_a_producer_is_shown_with_its_last_batch_and_its_open_transaction() -> None:
    replica = partition()
    send(replica, 7, 0, count=3, epoch=2)
    size = replica.size_bytes
    (producer,) = describe_producers(replica)
    stamp = producer.last_timestamp
    assert producer == ProducerView(7, 2, 2, stamp, -1, 0, held_records=3, held_bytes=size)
    mark(replica, 7, epoch=3, coordinator_epoch=5)
    (producer,) = describe_producers(replica)
    assert producer == ProducerView(7, 3, -1, NOW_MS, 5, -1, None, None)


def test_the_first_open_transaction_holds_records_of_all_producers_after_it() -> None:
    replica = partition()
    send(replica, 7, 0)
    first = replica.size_bytes
    send(replica, 8, 0)
    replica.append(batch(1), now_ms=NOW_MS)
    everything = replica.size_bytes
    assert held(replica) == {7: (3, everything), 8: (2, everything - first)}
    mark(replica, 7)
    assert held(replica) == {8: (3, replica.size_bytes - first)}


def test_l9_deleted_records_do_not_count_as_held_by_a_transaction() -> None:
    replica = partition()
    send(replica, 7, 0)
    send(replica, 7, 1)
    at_its_end(replica.delete_records_before(1, NOW_MS))
    assert held(replica)[7] == (1, replica.size_bytes // 2)


def test_bytes_are_counted_across_segments_and_after_a_restart() -> None:
    files = MemoryFiles()
    replica = partition(files, segment_bytes=200)
    for sequence in range(6):
        send(replica, 7, sequence)
    assert len(replica._log.segments) > 2
    assert held(replica) == {7: (6, replica.size_bytes)}
    again = partition(files, segment_bytes=200)
    assert held(again) == {7: (6, replica.size_bytes)}


def test_unflushed_records_do_not_count_as_held() -> None:
    """Unflushed records are above the high watermark, so readers would not get them even without
    the transaction."""
    replica = partition(flush_on_ack=True)
    send(replica, 7, 0)
    assert held(replica)[7][0] == 0
