"""What readers of either isolation see of a partition, and what markers do to it."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_server.log.results import Origin
from oncelog_server.partition.partition import Isolation
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import NOW_MS, batch, records
from tests.server.partition.partitions import mark, partition, refusal, send
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.log_reading import read_values

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
MANY = 1 << 30


# --- isolation


def test_L1_the_last_stable_offset_is_the_first_of_an_open_transaction() -> None:
    one = partition()
    one.append(batch(2), now_ms=NOW_MS)
    first = send(one, 7, 0, 3)
    send(one, 8, 0)
    one.append(batch(1), now_ms=NOW_MS)
    assert (one.last_stable_offset, one.high_watermark) == (first, 7)
    assert (one.end_offset(RC), one.end_offset(RU)) == (first, 7)
    mark(one, 8)
    assert one.last_stable_offset == first
    mark(one, 7)
    assert one.last_stable_offset == one.high_watermark == 9


def test_L3_a_marker_that_is_not_committed_ends_nothing_for_a_reader() -> None:
    files = MemoryFiles()
    one = partition(files, flush_on_ack=True)
    send(one, 7, 0)
    files.settle()
    mark(one, 7)
    assert (one.last_stable_offset, one.high_watermark) == (0, 1)
    assert one.read(0, MANY, RC, at_least_one=True).records is None
    files.settle()
    assert one.last_stable_offset == one.high_watermark == 2


def test_a_reader_of_the_uncommitted_gets_no_list_of_the_aborted() -> None:
    one = partition()
    send(one, 7, 0)
    mark(one, 7, committed=False)
    assert one.read(0, MANY, RU, at_least_one=True).aborted is None
    assert one.read(2, MANY, RC, at_least_one=True).aborted == []


def test_L4_L5_L14_small_fetches_through_aborted_transactions_in_many_segments() -> None:
    one = partition(segment_bytes=400, index_interval_bytes=0)
    expected = []
    for number in range(40):
        producer_id = number % 4
        data = build_batch(
            [record._replace(value=b"%d" % number) for record in records(1)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number // 4,
            is_transactional=True,
        )
        one.append(data, now_ms=NOW_MS)
        if producer_id == 0:
            expected.append(b"%d" % number)
    for producer_id in range(4):
        mark(one, producer_id, committed=producer_id == 0)
    assert len(one.log.segments) > 5
    for max_bytes in (1, 100, 300, MANY):
        assert read_values(one, RC, max_bytes) == expected
    whole = read_values(one, RU)
    assert whole == [b"%d" % number for number in range(40)]


def test_a_fetch_lists_the_aborted_transactions_of_what_it_carries_only() -> None:
    one = partition(index_interval_bytes=0)
    for number in range(50):
        send(one, number, 0)
        mark(one, number, committed=False)
    read = one.read(0, 1, RC, at_least_one=True)
    assert read.aborted is not None
    assert [row.producer_id for row in read.aborted][:2] in ([0], [0, 1])
    assert len(read.aborted) <= 2


def test_L9_records_of_an_open_transaction_are_deleted_and_its_abort_still_comes() -> None:
    one = partition()
    send(one, 7, 0, 4)
    one.append(batch(2), now_ms=NOW_MS)
    assert one.delete_records_before(5, NOW_MS) == 5
    assert one.last_stable_offset == one.log.log_start_offset == 5
    mark(one, 7, committed=False)
    assert one.last_stable_offset == one.high_watermark == 7


@pytest.mark.parametrize("offset", [-1, 4])
def test_delete_records_goes_no_further_than_the_high_watermark(offset: int) -> None:
    one = partition()
    one.append(batch(3), now_ms=NOW_MS)
    code = refusal(lambda: one.delete_records_before(offset, NOW_MS))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation", [RC, RU])
@pytest.mark.parametrize("offset", [0, 1, 4, -1])
def test_an_offset_that_is_not_in_the_log(offset: int, isolation: Isolation) -> None:
    one = partition()
    one.append(batch(3), now_ms=NOW_MS)
    one.delete_records_before(2, NOW_MS)
    code = refusal(lambda: one.read(offset, MANY, isolation, at_least_one=True))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_disk_that_cannot_be_read_is_a_storage_error() -> None:
    files = MemoryFiles()
    one = partition(files)
    one.append(batch(3), now_ms=NOW_MS)
    files.fail_reads(".log")
    read = one.read(0, MANY, RU, at_least_one=True)
    assert read.records is not None
    with pytest.raises(StorageError):
        read.records.read()


# --- markers


def test_M2_M3_M4_a_stale_marker_changes_nothing() -> None:
    one = partition()
    send(one, 7, 0, epoch=3)
    mark(one, 8, coordinator_epoch=5)
    end = one.log.log_end_offset
    assert refusal(lambda: mark(one, 7, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: mark(one, 7, epoch=3, version=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    fenced = refusal(lambda: mark(one, 8, coordinator_epoch=4))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (one.log.log_end_offset, one.last_stable_offset) == (end, 0)
    mark(one, 7, epoch=3)
    mark(one, 8, coordinator_epoch=5)
    assert one.last_stable_offset == one.high_watermark


def test_R15_a_marker_that_comes_twice_ends_nothing_twice() -> None:
    one = partition()
    send(one, 7, 0)
    for _ in range(2):
        mark(one, 7, epoch=1, committed=False, version=2)
    assert len(one.log.aborted_transactions(0, 10)) == 1
    assert one.last_stable_offset == one.high_watermark == 3


def test_R16_a_marker_for_a_producer_that_wrote_nothing_here() -> None:
    one = partition()
    mark(one, 7, coordinator_epoch=4)
    entry = one.log.producers.entry(7)
    assert entry is not None
    assert (entry.coordinator_epoch, entry.current_txn_first_offset) == (4, -1)
    assert one.last_stable_offset == 1


def test_Z15_a_batch_outside_of_the_producers_open_transaction() -> None:
    one = partition()
    send(one, 7, 0)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=1)
    code = refusal(lambda: one.append(data, now_ms=NOW_MS))
    assert code is ErrorCode.INVALID_TXN_STATE
    assert one.log.log_end_offset == 1


def test_a_coordinators_batch_needs_no_sequence() -> None:
    one = partition()
    for _ in range(2):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        one.append(data, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert one.log.log_end_offset == 2
