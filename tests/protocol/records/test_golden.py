"""Our batches are compared with batches of Apache Kafka: those that its dump tool printed, and
those that its classes built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_protocol.records.batch import (
    LOG_APPEND_TIME,
    build_batch,
    compute_crc,
    read_header,
    read_records,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.control import (
    EndTransactionMarker,
    build_marker_batch,
    read_marker,
)
from oncelog_protocol.records.record import NewRecord
from tests.protocol.records.drawing import LIMIT, as_read
from tests.protocol.records.golden import ABORT_MARKER, BATCHES, LOG_APPEND_TIME_BATCH

INVOICE = b'{"userId":"u1","productId":"p1","quantity":2,"totalPrice":"20$"}'
INVOICE_MS = 1709328801524
MARKER_MS = 1709328801679

THREE = [
    NewRecord(1000, b"key", b"value", (("one", b"\1"), ("two", None))),
    NewRecord(999, None, None),
    NewRecord(5_000_000, b"", b"x" * 300),
]


def test_a_transactional_batch_has_the_size_and_crc_of_kafkas() -> None:
    batch = build_batch(
        [NewRecord(INVOICE_MS, None, INVOICE)],
        base_offset=5,
        leader_epoch=0,
        producer_id=2000,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    header = read_header(batch)
    assert (len(batch), header.crc) == (134, 2337423005)
    assert compute_crc(batch, 0, len(batch)) == header.crc
    assert (header.base_offset, header.last_offset, header.records_count) == (5, 5, 1)
    assert (header.base_sequence, header.last_sequence) == (0, 0)
    assert (header.producer_id, header.producer_epoch) == (2000, 3)
    assert (header.is_transactional, header.is_control) == (True, False)
    assert header.max_timestamp == INVOICE_MS
    assert header.delete_horizon_ms is None
    (record,) = read_records(batch, max_bytes=0)
    assert record == (5, INVOICE_MS, None, INVOICE, ())


def test_a_commit_marker_has_the_size_and_crc_of_kafkas() -> None:
    batch = build_marker_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0),
        producer_id=2000,
        producer_epoch=3,
        timestamp_ms=MARKER_MS,
        base_offset=6,
        leader_epoch=0,
    )
    header = read_header(batch)
    assert (len(batch), header.crc) == (78, 2893569019)
    assert (header.base_offset, header.base_sequence, header.last_sequence) == (6, -1, -1)
    assert (header.is_transactional, header.is_control) == (True, True)
    (record,) = read_records(batch, max_bytes=0)
    assert (len(record.key or b""), len(record.value or b"")) == (4, 6)
    assert read_marker(record) == EndTransactionMarker(committed=True, coordinator_epoch=0)


def test_a_marker_of_another_partition_has_the_same_crc() -> None:
    """Kafka's dump tool shows the same marker in two partitions, at different offsets. Both have
    the same CRC, because the CRC does not cover the base offset."""
    batch = build_marker_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0),
        producer_id=2000,
        producer_epoch=3,
        timestamp_ms=MARKER_MS,
        base_offset=12,
        leader_epoch=7,
    )
    assert read_header(batch).crc == 2893569019


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_of_kafkas_own_builder(compression: Compression) -> None:
    """The batch begins at sequence 2^31 - 2 and has three records, so the last sequence is 0."""
    kafkas = BATCHES[compression]
    header = read_header(kafkas)
    assert (header.compression, header.is_transactional) == (compression, True)
    assert (header.base_sequence, header.last_sequence) == ((1 << 31) - 2, 0)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 5_000_000)
    assert read_records(kafkas, max_bytes=LIMIT) == as_read(THREE, 100)
    rebuilt = build_batch(
        THREE,
        base_offset=100,
        leader_epoch=9,
        compression=compression,
        producer_id=2000,
        producer_epoch=3,
        base_sequence=(1 << 31) - 2,
        is_transactional=True,
    )
    if compression is Compression.NONE:
        assert rebuilt == kafkas
    unpacked = {"batch_length": 0, "crc": 0}  # compressors differ in a few bytes
    assert replace(read_header(rebuilt), **unpacked) == replace(header, **unpacked)


def test_a_batch_with_log_append_time_of_kafkas_own_builder() -> None:
    header = read_header(LOG_APPEND_TIME_BATCH)
    assert header.timestamp_type == LOG_APPEND_TIME
    assert not header.has_producer_id
    timestamps = {r.timestamp for r in read_records(LOG_APPEND_TIME_BATCH, max_bytes=0)}
    assert timestamps == {header.max_timestamp}


def test_the_abort_marker_of_kafkas_own_builder() -> None:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=12)
    ours = build_marker_batch(
        marker,
        producer_id=2000,
        producer_epoch=3,
        timestamp_ms=MARKER_MS,
        base_offset=6,
        leader_epoch=0,
    )
    assert ours == ABORT_MARKER
    (record,) = read_records(ABORT_MARKER, max_bytes=0)
    assert read_marker(record) == marker
