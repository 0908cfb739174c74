"""A compacted batch: its bytes, codec, times, offsets and leader epoch."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.records.batch import LOG_APPEND_TIME, build_batch, read_header, read_records
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.records.retained import build_empty_batch, build_retained_batch
from oncelog_server.log.cleaner.aborted_rows import AbortedRows
from oncelog_server.log.cleaner.batch_filter import BatchFilter
from oncelog_server.log.cleaner.cleaned_transactions import CleanedTransactions
from oncelog_server.log.cleaner.job import CleaningJob, CleaningLimits, Source
from oncelog_server.log.cleaner.last_batches import LastBatches, LastOfProducer
from oncelog_server.log.cleaner.offset_map import OffsetMap
from oncelog_server.log.errors import CorruptLog
from tests.server.log.cleaner.compacting import COMPACTED, Compacting
from tests.server.log.driver import MANY, NOW_MS, logs_in

RECORDS = [
    NewRecord(NOW_MS + 5, b"a", b"1", (("h", b"x"), ("n", None))),
    NewRecord(NOW_MS + 9, b"b", None),
    NewRecord(NOW_MS, None, b"3"),
    NewRecord(NOW_MS + 2, b"d", b"4" * 3_000),
]


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("horizon_ms", [None, NOW_MS + 1_000, NOW_MS - 10**9])
def test_records_keep_offset_time_and_headers(codec: Compression, horizon_ms: int | None) -> None:
    batch = build_batch(
        RECORDS, base_offset=50, leader_epoch=7, compression=codec, producer_id=3,
        producer_epoch=4, base_sequence=2**31 - 2, is_transactional=True,
    )  # fmt: skip
    header = read_header(batch)
    records = read_records(batch, max_bytes=MANY)
    kept = build_retained_batch(header, [records[1], records[3]], horizon_ms)
    after = read_header(kept)
    assert read_records(kept, max_bytes=MANY) == [records[1], records[3]]
    assert after.delete_horizon_ms == horizon_ms
    assert (after.base_offset, after.last_offset, after.records_count) == (50, 53, 2)
    assert after.max_timestamp == NOW_MS + 9
    assert after.last_sequence == header.last_sequence == 1
    assert after.partition_leader_epoch == 7
    assert after.compression is codec
    assert after.is_transactional
    again = build_retained_batch(after, [read_records(kept, max_bytes=MANY)[1]], horizon_ms)
    assert read_records(again, max_bytes=MANY) == [records[3]]


def test_log_append_time_stays_the_time_of_all_records() -> None:
    batch = build_batch(RECORDS, timestamp_type=LOG_APPEND_TIME)
    header = read_header(batch)
    records = read_records(batch, max_bytes=MANY)
    kept = build_retained_batch(header, records[2:3], None)
    assert read_header(kept).max_timestamp == header.max_timestamp
    assert read_records(kept, max_bytes=MANY) == records[2:3]


@pytest.mark.parametrize("codec", Compression)
def test_an_empty_batch_keeps_the_offsets_and_the_sequence(codec: Compression) -> None:
    batch = build_batch(
        RECORDS, base_offset=50, leader_epoch=7, compression=codec, producer_id=3,
        producer_epoch=4, base_sequence=9,
    )  # fmt: skip
    header = read_header(batch)
    empty = build_empty_batch(header)
    after = read_header(empty)
    assert len(empty) == after.size == 61
    assert read_records(empty, max_bytes=MANY) == []
    assert after.last_offset == header.last_offset
    assert after.last_sequence == header.last_sequence
    assert after.max_timestamp == header.max_timestamp
    assert after.compression is Compression.NONE


def job(end_offset: int = 100, **fields: Any) -> CleaningJob:
    made = CleaningJob(
        (Source(0, end_offset, "", 0),), 0, AbortedRows(), LastBatches(), COMPACTED,
        CleaningLimits(), NOW_MS,
    )  # fmt: skip
    return made._replace(**fields)


def test_a_batch_with_only_current_records_stays_unchanged() -> None:
    offsets = OffsetMap(9, 0.9)
    offsets.put(b"other", 90)
    batch = bytes(build_batch([RECORDS[0], RECORDS[3]], compression=Compression.ZSTD))
    kept = BatchFilter(job(), offsets, CleanedTransactions(())).keep(read_header(batch), batch)
    assert kept is batch


def test_records_without_a_key_are_removed_and_the_last_batch_stays_empty() -> None:
    offsets = OffsetMap(9, 0.9)
    offsets.put(b"other", 90)
    for end_offset, stays in ((100, False), (1, True)):
        batch = bytes(build_batch([RECORDS[2]]))
        batches = BatchFilter(job(end_offset), offsets, CleanedTransactions(()))
        kept = batches.keep(read_header(batch), batch)
        assert (kept is not None) is stays
        assert batches.records_kept == 0


def test_an_empty_batch_stays_only_in_place_of_its_producers_last_batch() -> None:
    offsets = OffsetMap(9, 0.9)
    offsets.put(b"a", 90)
    batch = bytes(build_batch([RECORDS[0]], producer_id=3, producer_epoch=0, base_sequence=0))
    header = read_header(batch)
    for last, stays in ((0, True), (5, False)):
        producers = LastBatches()
        producers.add(3, LastOfProducer(last, 0))
        batches = BatchFilter(job(producers=producers), offsets, CleanedTransactions(()))
        kept = batches.keep(header, batch)
        assert (kept is not None) is stays
        if kept is not None:
            again = batches.keep(read_header(kept), bytes(kept))
            assert again == kept


def test_damage_is_not_written_again_with_a_correct_checksum() -> None:
    driver = Compacting()
    for _ in range(20):
        driver.put(("a", "v" * 50))
    driver.roll()
    path = logs_in(driver.files)[1]
    driver.files.nodes[path].data[90] ^= 4
    before = {name: bytes(node.data) for name, node in driver.files.nodes.items()}
    with pytest.raises(CorruptLog) as corrupt:
        driver.compact()
    assert corrupt.value.path == path
    driver.files.settle()
    assert {name: bytes(node.data) for name, node in driver.files.nodes.items()} == before
