"""Batches of an Apache Kafka broker, as its dump tool printed them: rebuilt, they have its CRCs."""

from __future__ import annotations

from oncelog_protocol.records.batch import build_batch, compute_crc, read_header, read_records
from oncelog_protocol.records.control import (
    EndTransactionMarker,
    build_marker_batch,
    read_marker,
)
from oncelog_protocol.records.record import NewRecord

INVOICE = b'{"userId":"u1","productId":"p1","quantity":2,"totalPrice":"20$"}'
INVOICE_MS = 1709328801524
MARKER_MS = 1709328801679


def test_the_invoice_batch() -> None:
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


def test_the_commit_marker() -> None:
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
    """The article shows the marker at two offsets with one CRC: offsets are outside it."""
    batch = build_marker_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0),
        producer_id=2000,
        producer_epoch=3,
        timestamp_ms=MARKER_MS,
        base_offset=12,
        leader_epoch=7,
    )
    assert read_header(batch).crc == 2893569019
