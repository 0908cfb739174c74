"""Fetched batches -> Arrow, with the columns of Spark's Kafka source.

Names and types are those that `pyspark.sql.pandas.types.to_arrow_schema` gives for the source's
schema: Spark compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from oncelog_client.values import TopicPartition
from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.record import Bytes, Record

# One batch may not grow beyond this when decompressed: a bound on what a broken one can do.
MAX_BATCH_BYTES: Final = 1 << 30

_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)

COLUMN_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADERS,
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of these columns, in this order."""
    return pa.schema([(name, COLUMN_TYPES[name]) for name in columns])


def decode_plainly(
    buffer: Bytes,
    batches: Sequence[tuple[int, BatchHeader]],
    partition: TopicPartition,
    columns: Sequence[str],
    start: int,
    end: int,
) -> pa.RecordBatch:
    """The records of these batches at offsets in [start, end), by the ordinary decoder."""
    records: list[Record] = []
    kinds: list[int] = []
    for position, header in batches:
        decoded = read_records(buffer, position, max_bytes=MAX_BATCH_BYTES)
        decoded = [record for record in decoded if start <= record.offset < end]
        records += decoded
        kinds += [header.timestamp_type] * len(decoded)
    count = len(records)
    made: dict[str, Any] = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "topic": [partition.topic] * count,
        "partition": [partition.partition] * count,
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp * 1000 for record in records],
        "timestampType": kinds,
        "headers": [
            [{"key": key, "value": value} for key, value in record.headers] or None
            for record in records
        ],
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(made[name], COLUMN_TYPES[name]) for name in columns],
        schema=arrow_schema(columns),
    )
