"""Fetched batches become Arrow in Spark's form, with the values that the ordinary decoder reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelog_client.core.isolation import marked_batches
from oncelog_client.spark.records import arrow_decode
from oncelog_client.spark.records.arrow_decode import COLUMN_TYPES, arrow_schema, decode
from oncelog_client.values import TopicPartition
from oncelog_protocol.records.batch import (
    CRC_POSITION,
    HEADER_SIZE,
    build_batch,
    compute_crc,
    patch_max_timestamp_and_log_append,
    patch_offsets,
    read_header,
    read_records,
    split_batches,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord, Record
from oncelog_protocol.records.retained import build_retained_batch
from tests.protocol.records.drawing import LIMIT, NEW_RECORDS

SPARK_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(
                StructType([StructField("key", StringType()), StructField("value", BinaryType())])
            ),
        ),
    ]
)
ALL = list(COLUMN_TYPES)
PARTITION = TopicPartition("purchases", 3)
EVERYTHING = (0, 1 << 62)


def test_the_schema_equals_the_schema_of_spark() -> None:
    wanted = to_arrow_schema(SPARK_SCHEMA, timezone="UTC")
    assert arrow_schema(ALL).equals(wanted, check_metadata=True)


def decoded(
    buffer: bytes | bytearray,
    columns: Sequence[str] = ALL,
    start: int = 0,
    end: int = 1 << 62,
    *,
    check_crcs: bool = True,
) -> pa.Table:
    batches = [
        (position, header)
        for position, header, visible in marked_batches(buffer, start, read_committed=False)
        if visible
    ]
    rows = list(
        decode(buffer, batches, PARTITION, columns, start=start, end=end, check_crcs=check_crcs)
    )
    for batch in rows:
        assert batch.num_rows > 0
        batch.validate(full=True)
    table = pa.Table.from_batches(rows, arrow_schema(columns))
    if "timestamp" not in columns:
        return table
    # Compare numbers, because Python's dates have a smaller range.
    at = columns.index("timestamp")
    return table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64()))


def row_of(record: Record, timestamp_type: int) -> dict[str, Any]:
    """Return a record as Spark shows it."""
    headers = [
        {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for key, value in record.headers
    ]
    return {
        "key": record.key,
        "value": record.value,
        "topic": PARTITION.topic,
        "partition": PARTITION.partition,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": timestamp_type,
        "headers": headers or None,
    }


def plainly(buffer: bytes | bytearray, *, check_crc: bool = True) -> list[dict[str, Any]]:
    """Return all rows of batches, read by the ordinary decoder."""
    return [
        row_of(record, header.timestamp_type)
        for position, header in split_batches(buffer, allow_partial=True)
        for record in read_records(buffer, position, max_bytes=LIMIT, check_crc=check_crc)
    ]


# Whole responses. Some batches have LogAppendTime, some have lost records to compaction.
BATCHES = st.lists(
    st.tuples(
        NEW_RECORDS,
        st.sampled_from(Compression),
        st.booleans(),
        st.lists(st.booleans(), min_size=8, max_size=8).filter(any),
        st.integers(0, 100_000),
    ),
    min_size=1,
    max_size=5,
)


def answer_of(batches: Sequence[Any]) -> bytearray:
    answer, offset = bytearray(), 0
    for records, codec, is_log_append_time, kept, gap in batches:
        offset += gap
        batch = build_batch(records, base_offset=offset, compression=codec)
        left = [
            record
            for record, keep in zip(read_records(batch, max_bytes=LIMIT), kept, strict=False)
            if keep
        ]
        if left and len(left) < len(records):
            batch = build_retained_batch(read_header(batch), left, None)
        if is_log_append_time:
            patch_max_timestamp_and_log_append(batch, 0, 1_700_000_000_000)
        answer += batch
        offset += len(records)
    return answer


@given(BATCHES)
def test_rows_equal_those_of_the_ordinary_decoder(batches: Sequence[Any]) -> None:
    answer = answer_of(batches)
    assert decoded(answer).to_pylist() == plainly(answer)


@given(BATCHES, st.integers(0, 60), st.integers(0, 60))
def test_only_offsets_of_the_range_are_decoded(
    batches: Sequence[Any], start: int, length: int
) -> None:
    answer = answer_of(batches)
    wanted = [row for row in plainly(answer) if start <= row["offset"] < start + length]
    assert decoded(answer, ALL, start, start + length).to_pylist() == wanted


@given(BATCHES, st.lists(st.sampled_from(ALL), min_size=1, unique=True))
def test_only_the_requested_columns_are_decoded(batches: Sequence[Any], columns: list[str]) -> None:
    answer = answer_of(batches)
    wanted = [{name: row[name] for name in columns} for row in plainly(answer)]
    table = decoded(answer, columns)
    assert table.column_names == columns
    assert table.to_pylist() == wanted


def outcome(decode_all: Any) -> Any:
    try:
        return decode_all()
    except CorruptRecords:
        return CorruptRecords


@given(BATCHES, st.data())
def test_damage_has_the_same_effect_as_in_the_ordinary_decoder(
    batches: Sequence[Any], data: st.DataObject
) -> None:
    """The test skips CRCs, because they would find most of the damage first."""
    damaged = answer_of(batches)
    places = [
        place
        for position, header in split_batches(damaged)
        for place in range(position + HEADER_SIZE, position + header.size)
    ]
    damaged[data.draw(st.sampled_from(places))] ^= data.draw(st.integers(1, 255))
    wanted = outcome(lambda: plainly(damaged, check_crc=False))
    assert outcome(lambda: decoded(damaged, check_crcs=False).to_pylist()) == wanted


@pytest.mark.parametrize("columns", [ALL, ["value"]], ids=["all", "value"])
@pytest.mark.parametrize(
    "records",
    [
        [NewRecord(5, b"", b"v", [("h", b"x"), ("", None)]), NewRecord(7, None, None)],
        [NewRecord(5, b"", b"v", [("h", b"x")]), NewRecord(7, b"k", b"w", [("h", b"y")])],
        [NewRecord(5, None, b"v"), NewRecord(5, None, b"v")],
    ],
)
def test_any_wrong_bit_has_the_same_effect_as_in_the_ordinary_decoder(
    columns: list[str], records: list[NewRecord]
) -> None:
    answer = build_batch(records)
    for place in range(HEADER_SIZE, len(answer)):
        for bit in range(8):
            damaged = bytearray(answer)
            damaged[place] ^= 1 << bit
            # Each lambda runs within its turn of the loop, so `damaged` is the value of that turn.
            wanted = outcome(lambda: plainly(damaged, check_crc=False))  # noqa: B023
            got = outcome(
                lambda: decoded(damaged, columns, check_crcs=False).to_pylist()  # noqa: B023
            )
            if columns == ALL:
                assert got == wanted
            elif wanted is not CorruptRecords:
                assert got == [{name: row[name] for name in columns} for row in wanted]


def test_a_wrong_crc_is_corrupt() -> None:
    batch = build_batch([NewRecord(0, None, b"value")])
    batch[-2] ^= 1
    with pytest.raises(CorruptRecords, match="CRC of the batch at offset 0"):
        decoded(batch)
    assert decoded(batch, check_crcs=False).num_rows == 1


@given(BATCHES, st.data())
def test_a_prefix_of_a_response_gives_its_complete_batches(
    batches: Sequence[Any], data: st.DataObject
) -> None:
    answer = answer_of(batches)
    prefix = answer[: data.draw(st.integers(0, len(answer)))]
    assert decoded(prefix).to_pylist() == plainly(prefix)


def test_the_error_names_a_timestamp_too_large_for_microseconds() -> None:
    batch = build_batch([NewRecord(1 << 60, None, b"v")], base_offset=7)
    with pytest.raises(CorruptRecords, match=f"offset 7 has the timestamp {1 << 60} ms"):
        decoded(batch)
    assert decoded(batch, ["value"]).to_pylist() == [{"value": b"v"}]


def test_numbers_of_different_sizes_are_read() -> None:
    """Lengths are encoded in one to four bytes, deltas of timestamps in one, two, three and six."""
    values = [b"x" * size for size in (0, 63, 64, 8191, 8192, 1 << 20, (1 << 20) + 1)]
    for deltas in ([0, 1, 63, 64, 1 << 13, 1 << 40, 5], [0, -1, -64, -65, -(1 << 40), 3, 2]):
        records = [
            NewRecord(10**12 + delta, None, value)
            for delta, value in zip(deltas, values, strict=True)
        ]
        answer = build_batch(records) + build_batch(records[:2], base_offset=100)
        assert decoded(answer).to_pylist() == plainly(answer)


def test_ordinary_batches_are_read_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that reads record by record would give the same result more slowly."""
    monkeypatch.delattr(arrow_decode, "_decode_plainly")
    records = [
        NewRecord(1_000 + number, key, b"v" * (number % 300), headers)
        for number in range(1000)
        for key, headers in [(None, ()), (b"k%d" % number, [("h", b"1"), ("i", None)])]
    ]
    answer = build_batch(records) + build_batch(
        records, base_offset=5_000, compression=Compression.ZSTD
    )
    assert decoded(answer).to_pylist() == plainly(answer)


def test_large_responses_become_arrow_batches_of_about_ten_thousand_rows() -> None:
    answer, offset = bytearray(), 0
    batch = build_batch([NewRecord(0, None, b"v")] * 999)
    for _ in range(30):
        patch_offsets(batch, 0, offset, 0)
        answer += batch
        offset += 999
    batches = list(
        decode(answer, list(split_batches(answer)), PARTITION, ["offset"], start=5, end=29_000)
    )
    assert [rows.num_rows for rows in batches] == [10_984, 10_989, 7_022]
    offsets = pa.Table.from_batches(batches)["offset"].to_pylist()
    assert offsets == list(range(5, 29_000))


def test_a_batch_emptied_by_compaction_has_no_rows() -> None:
    batch = build_batch([NewRecord(0, None, b"v")])
    emptied = bytearray(batch[:HEADER_SIZE])
    emptied[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    crc = compute_crc(emptied, 0, HEADER_SIZE)
    emptied[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    assert decoded(emptied).num_rows == 0
