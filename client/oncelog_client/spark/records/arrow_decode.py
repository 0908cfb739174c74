"""Decodes fetched batches into Arrow, with the columns of Spark's Kafka source.

The columns have the names and types that `pyspark.sql.pandas.types.to_arrow_schema` returns for the
source's schema, because Spark compares them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog_client.values import TopicPartition
from oncelog_protocol.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    compute_crc,
    read_records,
)
from oncelog_protocol.records.compression import Compression, decompress
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Bytes, Record

from .header_column import HEADERS, headers_column, plain_headers
from .record_columns import Body, Numbers, RecordPositions, Unusual, find, gather

# The default limit of a decompressed batch, in bytes: the product of the defaults of
# fetch_max_bytes and fetch_max_decompressed_factor.
MAX_BATCH_BYTES: Final = 200 << 20
# An Arrow batch is complete when it has at least this many rows or decompressed bytes. Its last
# record batch may bring it above these numbers.
ROWS: Final = 10_000
_MOST_BYTES: Final = 1 << 26

_INT64: Final = pa.int64()
_LARGE_TIMESTAMP: Final = 1 << 62
_US_PER_MS: Final = pa.scalar(1000, _INT64)

COLUMN_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns, in this order."""
    return pa.schema([(name, COLUMN_TYPES[name]) for name in columns])


def decode(
    buffer: Bytes,
    batches: Sequence[tuple[int, BatchHeader]],
    partition: TopicPartition,
    columns: Sequence[str],
    *,
    start: int,
    end: int,
    check_crcs: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a Fetch response at offsets in [start, end), as Arrow batches.

    `batches` are positions and headers of visible batches, in order (`isolation.marked_batches`).
    An Arrow batch has about ROWS rows and is never empty. Raises CorruptRecords as the ordinary
    decoder does, and for a timestamp that Spark's type cannot hold. Headers are decoded only if
    their column is requested.
    """
    for group in _groups(buffer, batches, end, check_crcs, max_batch_bytes):
        try:
            rows = _decode_columns(group, partition, columns, start, end)
        except Unusual:
            rows = _decode_plainly(buffer, group, partition, columns, start, end, max_batch_bytes)
        if rows.num_rows:
            yield rows


@dataclass(slots=True)
class _Group:
    """Record batches that become one Arrow batch. `bodies` are the positions of the batches'
    records in `data`."""

    is_compressed: bool
    positions: list[int] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    data: Bytes = b""
    rows: int = 0

    def has_room(self, is_compressed: bool, size: int) -> bool:
        return self.is_compressed is is_compressed and self.rows < ROWS and size < _MOST_BYTES


def _groups(
    buffer: Bytes,
    batches: Sequence[tuple[int, BatchHeader]],
    end: int,
    check_crcs: bool,
    max_batch_bytes: int,
) -> Iterator[_Group]:
    group: _Group | None = None
    parts: list[bytes] = []
    size = 0
    for position, header in batches:
        if header.base_offset >= end:
            break
        if check_crcs and compute_crc(buffer, position, header.size) != header.crc:
            raise CorruptRecords(f"the CRC of the batch at offset {header.base_offset} is wrong")
        codec = header.compression
        if not header.records_count and header.size == HEADER_SIZE:
            continue  # compaction keeps an empty batch for the producer's last sequence number
        is_compressed = codec != Compression.NONE
        if group is None or not group.has_room(is_compressed, size):
            if group is not None:
                yield _closed(group, parts)
            group, parts, size = _Group(is_compressed, data=buffer), [], 0
        start, stop = position + HEADER_SIZE, position + header.size
        if is_compressed:
            part = decompress(codec, memoryview(buffer)[start:stop], max_batch_bytes)
            parts.append(part)
            start, stop = size, size + len(part)
            size = stop
        group.positions.append(position)
        group.headers.append(header)
        group.bodies.append(Body(start, stop, header.records_count))
        group.rows += header.records_count
    if group is not None:
        yield _closed(group, parts)


def _closed(group: _Group, parts: list[bytes]) -> _Group:
    if group.is_compressed:
        group.data = parts[0] if len(parts) == 1 else b"".join(parts)
    return group


# -- column by column


def _decode_columns(
    group: _Group, partition: TopicPartition, columns: Sequence[str], start: int, end: int
) -> pa.RecordBatch:
    """Decode whole columns. Raises Unusual if `_decode_plainly` is needed."""
    found = find(group.data, group.bodies)
    offsets = _offsets(group, found)
    makers: dict[str, Callable[[], Any]] = {
        "key": lambda: gather(
            group.data, found.key_start, found.key_end, found.key_null, found.rows
        ),
        "value": lambda: gather(
            group.data, found.value_start, found.value_end, found.value_null, found.rows
        ),
        "topic": lambda: partition.topic,
        "partition": lambda: partition.partition,
        "offset": lambda: offsets,
        "timestamp": lambda: _timestamps(group, found),
        "timestampType": lambda: _expanded([h.timestamp_type for h in group.headers], group),
        "headers": lambda: headers_column(group.data, found),
    }
    arrays = [_array(makers[name](), COLUMN_TYPES[name], found.rows) for name in columns]
    rows = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
    numbers = memoryview(offsets.buffers()[1]).cast("q")
    first = bisect_left(numbers, start) if numbers[0] < start else 0
    last = bisect_left(numbers, end) if numbers[-1] >= end else found.rows
    return rows if last - first == found.rows else rows.slice(first, last - first)


def _array(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Return `values` as a column. A single value becomes the value of all rows."""
    if isinstance(values, pa.Array):
        return values if values.type == kind else pc.cast(values, kind)
    if isinstance(values, pa.Scalar):
        return pa.repeat(pc.cast(values, kind), rows)
    return pa.repeat(pa.scalar(values, kind), rows)


def _expanded(numbers: list[int], group: _Group) -> Numbers:
    """Return a column with a number for each record. `numbers` has one for each batch."""
    if len(set(numbers)) == 1:
        return pa.scalar(numbers[0], _INT64)
    ends, last = [], 0
    for body in group.bodies:
        last += body.records_count
        ends.append(last)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(numbers, _INT64))
    return pc.run_end_decode(runs)


def _offsets(group: _Group, found: RecordPositions) -> pa.Array:
    bases = _expanded([header.base_offset for header in group.headers], group)
    offsets = _array(pc.add(bases, found.offset_delta), _INT64, found.rows)
    rising = pc.less(offsets.slice(0, found.rows - 1), offsets.slice(1))
    if not pc.all(rising).as_py():
        raise Unusual("offsets do not rise")
    numbers, last = memoryview(offsets.buffers()[1]).cast("q"), -1
    for header, body in zip(group.headers, group.bodies, strict=True):
        last += body.records_count
        if numbers[last] > header.last_offset:
            raise Unusual("an offset beyond the batch")
    return offsets


def _timestamps(group: _Group, found: RecordPositions) -> pa.Array | pa.Scalar:
    by_batch = [header.timestamp_type == LOG_APPEND_TIME for header in group.headers]
    bases = [
        header.max_timestamp if is_of_batch else header.base_timestamp
        for header, is_of_batch in zip(group.headers, by_batch, strict=True)
    ]
    if max(map(abs, bases)) >= _LARGE_TIMESTAMP:
        raise Unusual("a large timestamp")
    deltas = found.timestamp_delta
    if any(by_batch):
        deltas = pc.multiply(deltas, _expanded([int(not value) for value in by_batch], group))
    try:
        us = pc.multiply_checked(pc.add(_expanded(bases, group), deltas), _US_PER_MS)
    except pa.ArrowInvalid:
        raise Unusual("a large timestamp") from None
    return pc.cast(us, COLUMN_TYPES["timestamp"])


# -- record by record


def _decode_plainly(
    buffer: Bytes,
    group: _Group,
    partition: TopicPartition,
    columns: Sequence[str],
    start: int,
    end: int,
    max_batch_bytes: int,
) -> pa.RecordBatch:
    """Decode record by record, with the ordinary decoder `read_records`. Raises CorruptRecords."""
    records: list[Record] = []
    kinds: list[int] = []
    for position, header in zip(group.positions, group.headers, strict=True):
        decoded = read_records(buffer, position, max_bytes=max_batch_bytes, check_crc=False)
        decoded = [record for record in decoded if start <= record.offset < end]
        records += decoded
        kinds += [header.timestamp_type] * len(decoded)
    makers: dict[str, Callable[[], Any]] = {
        "key": lambda: [record.key for record in records],
        "value": lambda: [record.value for record in records],
        "topic": lambda: [partition.topic] * len(records),
        "partition": lambda: [partition.partition] * len(records),
        "offset": lambda: [record.offset for record in records],
        "timestamp": lambda: [_microseconds(record) for record in records],
        "timestampType": lambda: kinds,
        "headers": lambda: [plain_headers(record.headers) for record in records],
    }
    arrays = [pa.array(makers[name](), COLUMN_TYPES[name]) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _microseconds(record: Record) -> int:
    us = record.timestamp * 1000
    if not -(1 << 63) <= us < 1 << 63:
        raise CorruptRecords(
            f"offset {record.offset} has the timestamp {record.timestamp} ms,"
            " which Spark's microseconds cannot hold"
        )
    return us
