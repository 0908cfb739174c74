"""Rows become the records that the ordinary encoder would write, where Kafka would put them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.partitioner import partition_for_key
from oncelog_client.spark.sink.arrow_encode import RowEncoder, RowError
from oncelog_client.values import TopicPartition
from oncelog_protocol.records.batch import build_encoded_batch, read_records
from oncelog_protocol.records.record import EncodedRecords, NewRecord, Record

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": HEADERS,
}
COUNTS = {"t": 3, "u": 1, "": 2}


def batch_of(columns: Mapping[str, list[Any]], types: Mapping[str, Any] = TYPES) -> pa.RecordBatch:
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def first_of(count: int) -> int:
    return 0


def encoder(topic: str | None = None, batch_size: int = 100_000) -> RowEncoder:
    return RowEncoder(topic, batch_size, first_of)


def encoded(
    rows: pa.RecordBatch, topic: str | None = None, batch_size: int = 100_000
) -> list[tuple[TopicPartition, EncodedRecords]]:
    made = encoder(topic, batch_size)
    names = made.topics(rows)
    return list(made.encode(rows, {name: COUNTS[name] for name in names}, 1_000))


def decoded(
    batches: list[tuple[TopicPartition, EncodedRecords]],
) -> dict[TopicPartition, list[Record]]:
    """What a reader gets, by the ordinary decoder."""
    found: dict[TopicPartition, list[Record]] = {}
    for partition, records in batches:
        batch = build_encoded_batch(records)
        found.setdefault(partition, []).extend(read_records(batch, max_bytes=1 << 30))
    return found


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=12),
            "value": st.none() | st.binary(max_size=300),
            "topic": st.sampled_from(["t", "u", ""]),
            "partition": st.none() | st.just(0),
            "headers": st.none()
            | st.lists(
                st.fixed_dictionaries(
                    {"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=5)}
                ),
                max_size=3,
            ),
        }
    ),
    max_size=40,
)


@given(ROWS, st.sampled_from([1, 100, 500, 100_000]))
def test_every_row_is_written_in_order_where_kafkas_partitioner_puts_it(
    rows: list[dict[str, Any]], batch_size: int
) -> None:
    batch = batch_of({name: [row[name] for row in rows] for name in TYPES})
    found = decoded(encoded(batch, batch_size=batch_size))
    for partition, records in found.items():
        wanted = [
            (row["key"], row["value"], tuple((h["key"], h["value"]) for h in row["headers"] or ()))
            for row in rows
            if row["topic"] == partition.topic
        ]
        got = [(record.key, record.value, record.headers) for record in records]
        assert {record.timestamp for record in records} == {1_000}
        left = iter(wanted)
        assert all(row in left for row in got), "rows of a partition are not in order"
    for row in rows:
        count = COUNTS[row["topic"]]
        if row["partition"] is not None:
            places = [row["partition"]]
        elif row["key"] is not None:
            places = [partition_for_key(row["key"], count)]
        else:
            places = list(range(count))
        assert any(
            (row["key"], row["value"]) in [(r.key, r.value) for r in found.get(where, [])]
            for where in (TopicPartition(row["topic"], place) for place in places)
        )
    assert sum(map(len, found.values())) == len(rows)


@given(ROWS.filter(bool))
def test_the_bytes_are_those_of_the_ordinary_encoder(rows: list[dict[str, Any]]) -> None:
    columns = {name: [row[name] for row in rows] for name in ("key", "value", "headers")}
    ((_, records),) = encoded(batch_of({**columns, "partition": [0] * len(rows)}), "t")
    wanted = EncodedRecords.of(
        [
            NewRecord(
                1_000,
                row["key"],
                row["value"],
                [(h["key"], h["value"]) for h in row["headers"] or ()],
            )
            for row in rows
        ]
    )
    assert records._replace(body=bytes(records.body)) == wanted


def test_an_option_overrides_the_topic_column() -> None:
    rows = batch_of({"value": [b"v"], "topic": ["u"]})
    assert [partition.topic for partition, _ in encoded(rows, "t")] == ["t"]


def test_a_partition_that_the_topic_has_not_is_named() -> None:
    rows = batch_of({"value": [b"v", b"w"], "topic": ["t", "t"], "partition": [2, 3]})
    with pytest.raises(RowError, match="partition 3, but topic t has 3 partitions"):
        encoded(rows)


def test_rows_without_a_topic_are_refused_as_by_sparks_own_connector() -> None:
    with pytest.raises(RowError, match="topic option required when no 'topic' attribute"):
        encoder().topics(batch_of({"value": [b"v"]}))
    with pytest.raises(RowError, match="null topic present in the data"):
        encoder().topics(batch_of({"value": [b"v", b"w"], "topic": ["t", None]}))
