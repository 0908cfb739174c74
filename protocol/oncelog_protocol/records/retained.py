"""A batch after compaction: it has fewer records, or only its header (Kafka's
MemoryRecords.filterTo, KIP-534).

Offsets do not change. A batch keeps its base offset and its last offset, so it keeps the sequence
numbers of its producer too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    BatchHeader,
    write_header,
)
from .compression import Compression, compress
from .record import Bytes, Record, encode_headers
from .zigzag import NULL, encode_varint

_NO_TIMESTAMP: Final = -1
_ROOM_FOR_HEADER: Final = bytes(HEADER_SIZE)


def build_retained_batch(
    header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None
) -> bytearray:
    """Return the batch of `header` with only these records, at least one, in the batch's codec. If
    `delete_horizon_ms` is not None, it replaces the base timestamp, and a flag in the attributes
    says so. The timestamps of the records do not change.
    """
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    parts: list[Bytes] = []
    for record in records:
        body = _body(record, header.base_offset, base_timestamp)
        parts += (encode_varint(len(body)), body)
    codec = header.compression
    data = b"".join(parts)
    batch = bytearray(_ROOM_FOR_HEADER)
    batch += data if codec == Compression.NONE else compress(codec, data)
    max_timestamp = header.max_timestamp
    if header.timestamp_type != LOG_APPEND_TIME:
        max_timestamp = max(record.timestamp for record in records)
    attributes = header.attributes & ~DELETE_HORIZON_FLAG
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
    write_header(
        batch,
        replace(
            header,
            batch_length=len(batch) - LENGTH_OVERHEAD,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=len(records),
        ),
    )
    return batch


def _body(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    key, value = record.key, record.value
    return b"".join(
        (
            b"\0",
            encode_varint(record.timestamp - base_timestamp),
            encode_varint(record.offset - base_offset),
            NULL if key is None else encode_varint(len(key)),
            key or b"",
            NULL if value is None else encode_varint(len(value)),
            value or b"",
            encode_headers(record.headers),
        )
    )


def build_empty_batch(header: BatchHeader) -> bytearray:
    """Return the batch of `header` without records. Compaction writes such a batch to keep the
    producer's last sequence number, or the last offset (DefaultRecordBatch.writeEmptyHeader)."""
    batch = bytearray(_ROOM_FOR_HEADER)
    write_header(
        batch,
        replace(
            header,
            batch_length=HEADER_SIZE - LENGTH_OVERHEAD,
            attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG),
            base_timestamp=_NO_TIMESTAMP,
            records_count=0,
        ),
    )
    return batch
