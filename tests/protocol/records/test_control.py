"""The markers that end a transaction."""

from __future__ import annotations

import io

import kio.schema.end_txn_marker.v0.data as kio_marker
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.primitive import i32

from oncelog_protocol.records.batch import read_header, read_records
from oncelog_protocol.records.control import (
    EndTransactionMarker,
    build_marker_batch,
    read_marker,
)
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Record

MARKERS = st.builds(EndTransactionMarker, st.booleans(), st.integers(-(1 << 31), (1 << 31) - 1))


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 0, key, value)


@given(MARKERS, st.integers(0, 1 << 62), st.integers(0, 32766))
def test_every_marker_is_encoded_in_78_bytes_and_decoded_unchanged(
    marker: EndTransactionMarker, producer_id: int, producer_epoch: int
) -> None:
    batch = build_marker_batch(
        marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=5
    )
    assert len(batch) == 78
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
    (read,) = read_records(batch, max_bytes=0)
    assert read_marker(read) == marker


@given(MARKERS)
def test_a_markers_value_has_kafkas_schema(marker: EndTransactionMarker) -> None:
    batch = build_marker_batch(marker, producer_id=1, producer_epoch=0, timestamp_ms=0)
    (read,) = read_records(batch, max_bytes=0)
    expected = io.BytesIO()
    message = kio_marker.EndTxnMarker(coordinator_epoch=i32(marker.coordinator_epoch))
    entity_writer(kio_marker.EndTxnMarker)(expected, message)
    assert read.value == b"\0\0" + expected.getvalue()


def test_other_control_records_are_no_markers() -> None:
    for kind in (2, 3, 4, 5, 6, -1, 99):
        key = b"\0\0" + kind.to_bytes(2, "big", signed=True)
        assert read_marker(record(key, b"whatever is in it")) is None


def test_fields_of_later_versions_are_ignored() -> None:
    later = record(b"\0\7\0\1more", b"\0\3\0\0\0\5more")
    assert read_marker(later) == EndTransactionMarker(committed=True, coordinator_epoch=5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"", bytes(6)),
        (b"\0\0\0", bytes(6)),
        (b"\xff\xff\0\1", bytes(6)),
        (bytes(4), None),
        (bytes(4), bytes(5)),
        (bytes(4), b"\xff\xff" + bytes(4)),
    ],
)
def test_a_damaged_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecords):
        read_marker(record(key, value))
