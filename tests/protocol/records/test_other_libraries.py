"""Three independent libraries read our batches, and we read theirs."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records
from kio.records.readers import read_batch as kio_read_batch
from kio.records.schema import NewRecordBatch as KioNewRecordBatch
from kio.records.schema import Record as KioRecord
from kio.records.schema import RecordHeader as KioRecordHeader
from kio.records.writers import write_batch as kio_write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from oncelog_protocol.records.batch import build_batch, read_header, read_records
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import NewRecord, Record
from tests.protocol.records.drawing import LIMIT, NEW_RECORDS, as_read

Plain: TypeAlias = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

READERS: dict[str, Callable[[bytes], Any]] = {
    "aiokafka, C": aiokafka_records.DefaultRecordBatch,
    "aiokafka, Python": aiokafka_records._DefaultRecordBatchPy,
    "kafka-python": kafka_python_records.DefaultRecordBatch,
}
BUILDERS: dict[str, Callable[..., Any]] = {
    "aiokafka, C": aiokafka_records.DefaultRecordBatchBuilder,
    "aiokafka, Python": aiokafka_records._DefaultRecordBatchBuilderPy,
    "kafka-python": kafka_python_records.DefaultRecordBatchBuilder,
}


def plain(records: list[Record]) -> list[Plain]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]


@pytest.mark.parametrize("library", READERS)
@pytest.mark.parametrize("compression", Compression)
@settings(max_examples=40)
@given(NEW_RECORDS, st.integers(0, 1 << 40), st.integers(-1, (1 << 31) - 1))
def test_they_read_what_we_write(
    library: str,
    compression: Compression,
    records: list[NewRecord],
    base_offset: int,
    base_sequence: int,
) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        compression=compression,
        producer_id=2000,
        producer_epoch=3,
        base_sequence=base_sequence,
        is_transactional=True,
    )
    theirs = READERS[library](bytes(batch))
    ours = read_header(batch)
    assert theirs.validate_crc()
    assert theirs.base_offset == ours.base_offset
    assert theirs.next_offset == ours.next_offset
    assert theirs.first_timestamp == ours.base_timestamp
    assert theirs.max_timestamp == ours.max_timestamp
    assert theirs.is_transactional == ours.is_transactional
    assert theirs.is_control_batch == ours.is_control
    assert theirs.compression_type == ours.compression
    assert (theirs.producer_id, theirs.producer_epoch) == (2000, 3)
    assert theirs.base_sequence == ours.base_sequence
    found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert found == plain(as_read(records, base_offset))


@pytest.mark.parametrize("library", BUILDERS)
@pytest.mark.parametrize("compression", Compression)
@settings(max_examples=40)
@given(NEW_RECORDS, st.integers(0, (1 << 31) - 1))
def test_we_read_what_they_write(
    library: str, compression: Compression, records: list[NewRecord], base_sequence: int
) -> None:
    builder = BUILDERS[library](
        magic=2,
        compression_type=int(compression),
        is_transactional=True,
        producer_id=2000,
        producer_epoch=3,
        base_sequence=base_sequence,
        batch_size=LIMIT,
    )
    for offset, new in enumerate(records):
        assert builder.append(offset, new.timestamp, new.key, new.value, list(new.headers))
    batch = bytes(builder.build())
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (2000, 3)
    assert header.base_sequence == base_sequence
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert read_records(batch, max_bytes=LIMIT) == as_read(records)
    if compression is Compression.NONE:
        assert batch == build_batch(
            records,
            leader_epoch=header.partition_leader_epoch,
            producer_id=2000,
            producer_epoch=3,
            base_sequence=base_sequence,
            is_transactional=True,
        )


@settings(max_examples=60)
@given(NEW_RECORDS, st.integers(0, 1 << 40))
def test_kio_reads_what_we_write(records: list[NewRecord], base_offset: int) -> None:
    """kio keeps only whole seconds of a timestamp."""
    batch = build_batch(records, base_offset=base_offset, producer_id=7, base_sequence=0)
    theirs, size = kio_read_batch(bytes(batch), 0)
    assert size == len(batch)
    assert (theirs.producer_id, theirs.base_offset) == (7, base_offset)
    found = [
        (
            r.offset,
            int(r.timestamp.timestamp()),
            r.key,
            r.value,
            [(h.key.decode() if h.key else "", h.value) for h in r.headers],
        )
        for r in theirs.records
    ]
    expected = as_read(records, base_offset)
    assert found == [(r[0], r[1] // 1000, r[2], r[3], list(r[4])) for r in expected]


@settings(max_examples=60)
@given(NEW_RECORDS, st.integers(0, 1 << 40))
def test_we_read_what_kio_writes(records: list[NewRecord], base_offset: int) -> None:
    seconds = [new._replace(timestamp=new.timestamp // 1000 * 1000) for new in records]
    theirs = KioNewRecordBatch(
        producer_id=i64(7),
        producer_epoch=i16(1),
        base_sequence=i32(3),
        attributes=i16(0),
        records=tuple(
            KioRecord(
                attributes=i8(0),
                timestamp=TZAwareMicros.parse(datetime.fromtimestamp(r.timestamp // 1000, UTC)),
                offset=i64(r.offset),
                key=r.key,
                value=r.value,
                headers=tuple(
                    KioRecordHeader(key=key.encode(), value=value) for key, value in r.headers
                ),
            )
            for r in as_read(seconds, base_offset)
        ),
    )
    buffer = io.BytesIO()
    kio_write_batch(buffer, theirs)
    assert read_records(buffer.getvalue(), max_bytes=0) == as_read(seconds, base_offset)
    assert buffer.getvalue() == build_batch(
        seconds,
        base_offset=base_offset,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
    )
