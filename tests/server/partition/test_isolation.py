"""The records that readers of each isolation level get from a partition, and the effects of
markers."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_server.log.results import Origin
from oncelog_server.partition.isolation import Isolation
from oncelog_server.slices import at_its_end
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import NOW_MS, batch, records
from tests.server.partition.partitions import mark, partition, refusal, send
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.log_reading import read_values

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
MANY = 1 << 30


# --- isolation


def test_L1_the_last_stable_offset_is_where_the_first_open_transaction_begins() -> None:
    replica = partition()
    replica.append(batch(2), now_ms=NOW_MS)
    first = send(replica, 7, 0, 3)
    send(replica, 8, 0)
    replica.append(batch(1), now_ms=NOW_MS)
    assert (replica.last_stable_offset, replica.high_watermark) == (first, 7)
    assert (replica.end_offset(RC), replica.end_offset(RU)) == (first, 7)
    mark(replica, 8)
    assert replica.last_stable_offset == first
    mark(replica, 7)
    assert replica.last_stable_offset == replica.high_watermark == 9


def test_L3_a_marker_above_the_high_watermark_does_not_move_the_last_stable_offset() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    send(replica, 7, 0)
    files.settle()
    mark(replica, 7)
    assert (replica.last_stable_offset, replica.high_watermark) == (0, 1)
    assert replica.read(0, MANY, RC, at_least_one=True).records is None
    files.settle()
    assert replica.last_stable_offset == replica.high_watermark == 2


def test_L3_a_marker_that_an_isr_follower_lacks_does_not_move_the_last_stable_offset() -> None:
    replica = partition(isr=(0, 1), replicas=(0, 1))
    send(replica, 7, 0)
    replica.replicas.record_fetch(1, 1, 1, NOW_MS)
    mark(replica, 7)
    assert (replica.last_stable_offset, replica.high_watermark) == (0, 1)
    assert replica.read(0, MANY, RC, at_least_one=True).records is None
    replica.replicas.record_fetch(1, 2, 2, NOW_MS)
    send(replica, 8, 0)
    assert replica.last_stable_offset == replica.high_watermark == 2


def test_a_read_uncommitted_reader_gets_no_list_of_aborted_transactions() -> None:
    replica = partition()
    send(replica, 7, 0)
    mark(replica, 7, committed=False)
    assert replica.read(0, MANY, RU, at_least_one=True).aborted is None
    assert replica.read(2, MANY, RC, at_least_one=True).aborted == []


def test_L4_L5_L14_fetches_of_any_size_skip_aborted_records_in_many_segments() -> None:
    replica = partition(segment_bytes=400, index_interval_bytes=0)
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
        replica.append(data, now_ms=NOW_MS)
        if producer_id == 0:
            expected.append(b"%d" % number)
    for producer_id in range(4):
        mark(replica, producer_id, committed=producer_id == 0)
    assert len(replica._log.segments) > 5
    for max_bytes in (1, 100, 300, MANY):
        assert read_values(replica, RC, max_bytes) == expected
    whole = read_values(replica, RU)
    assert whole == [b"%d" % number for number in range(40)]


def test_a_fetch_lists_only_the_aborted_transactions_of_its_records() -> None:
    replica = partition(index_interval_bytes=0)
    for number in range(50):
        send(replica, number, 0)
        mark(replica, number, committed=False)
    read = replica.read(0, 1, RC, at_least_one=True)
    assert read.aborted is not None
    assert [row.producer_id for row in read.aborted][:2] in ([0], [0, 1])
    assert len(read.aborted) <= 2


def test_L9_an_abort_after_its_records_are_deleted_moves_the_last_stable_offset() -> None:
    replica = partition()
    send(replica, 7, 0, 4)
    replica.append(batch(2), now_ms=NOW_MS)
    assert at_its_end(replica.delete_records_before(5, NOW_MS)) == 5
    assert replica.last_stable_offset == replica.log_start_offset == 5
    mark(replica, 7, committed=False)
    assert replica.last_stable_offset == replica.high_watermark == 7


@pytest.mark.parametrize("offset", [-1, 4])
def test_delete_records_refuses_a_negative_offset_and_one_above_the_high_watermark(
    offset: int,
) -> None:
    replica = partition()
    replica.append(batch(3), now_ms=NOW_MS)
    code = refusal(lambda: at_its_end(replica.delete_records_before(offset, NOW_MS)))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation", [RC, RU])
@pytest.mark.parametrize("offset", [0, 1, 4, -1])
def test_a_read_at_an_offset_outside_of_the_log_is_refused(
    offset: int, isolation: Isolation
) -> None:
    replica = partition()
    replica.append(batch(3), now_ms=NOW_MS)
    at_its_end(replica.delete_records_before(2, NOW_MS))
    code = refusal(lambda: replica.read(offset, MANY, isolation, at_least_one=True))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_disk_that_cannot_be_read_is_a_storage_error() -> None:
    files = MemoryFiles()
    replica = partition(files)
    replica.append(batch(3), now_ms=NOW_MS)
    files.fail_reads(".log")
    read = replica.read(0, MANY, RU, at_least_one=True)
    assert read.records is not None
    with pytest.raises(StorageError):
        read.records.read()


# --- markers


def test_M2_M3_M4_a_stale_marker_changes_nothing() -> None:
    replica = partition()
    send(replica, 7, 0, epoch=3)
    mark(replica, 8, coordinator_epoch=5)
    end = replica.log_end_offset
    assert refusal(lambda: mark(replica, 7, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: mark(replica, 7, epoch=3, version=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    fenced = refusal(lambda: mark(replica, 8, coordinator_epoch=4))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (replica.log_end_offset, replica.last_stable_offset) == (end, 0)
    mark(replica, 7, epoch=3)
    mark(replica, 8, coordinator_epoch=5)
    assert replica.last_stable_offset == replica.high_watermark


def test_R15_a_repeated_marker_adds_no_second_aborted_transaction() -> None:
    replica = partition()
    send(replica, 7, 0)
    for _ in range(2):
        mark(replica, 7, epoch=1, committed=False, version=2)
    assert len(replica._log.aborted_transactions(0, 10)) == 1
    assert replica.last_stable_offset == replica.high_watermark == 3


def test_R16_a_marker_for_an_unknown_producer_leaves_no_open_transaction() -> None:
    replica = partition()
    mark(replica, 7, coordinator_epoch=4)
    entry = replica._log.producers.entry(7)
    assert entry is not None
    assert (entry.coordinator_epoch, entry.current_txn_first_offset) == (4, -1)
    assert replica.last_stable_offset == 1


def test_Z15_a_non_transactional_batch_in_an_open_transaction_is_refused() -> None:
    replica = partition()
    send(replica, 7, 0)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=1)
    code = refusal(lambda: replica.append(data, now_ms=NOW_MS))
    assert code is ErrorCode.INVALID_TXN_STATE
    assert replica.log_end_offset == 1


def test_a_coordinators_batch_needs_no_sequence() -> None:
    replica = partition()
    for _ in range(2):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        replica.append(data, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert replica.log_end_offset == 2
