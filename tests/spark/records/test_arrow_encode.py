"""The Arrow encoder makes the same records as the ordinary encoder, in the partitions of Kafka's
partitioner."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.partitioner import partition_for_key
from oncelog_client.spark.records import arrow_encode
from oncelog_client.spark.records.arrow_encode import RowEncoder, RowError
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
    """Return the records that the ordinary decoder reads."""
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
def test_rows_are_written_in_order_to_the_partitions_of_kafkas_partitioner(
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
def test_the_bytes_equal_those_of_the_ordinary_encoder(rows: list[dict[str, Any]]) -> None:
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


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
    ids=str,
)
def test_every_string_and_binary_type_is_accepted(kind: pa.DataType) -> None:
    texts = ["", "k", None, "grün", "a longer text"]
    is_text = "string" in str(kind)
    values = [text if is_text or text is None else text.encode() for text in texts]
    column = pa.array(values, pa.string() if is_text else pa.binary()).cast(kind)
    rows = pa.RecordBatch.from_pydict({"key": column, "value": column.slice(0, 5)})
    ((_, records),) = encoded(rows.append_column("partition", pa.array([0] * 5, pa.int64())), "t")
    wanted = [None if text is None else text.encode() for text in texts]
    ((_, read),) = decoded([(TopicPartition("t", 0), records)]).items()
    assert [(record.key, record.value) for record in read] == [(value, value) for value in wanted]


def test_topics_and_headers_may_have_arrows_large_types() -> None:
    large = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    rows = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"v", b"v"]),
            "topic": pa.array(["u", "u"], pa.large_string()).dictionary_encode(),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None], large),
        }
    )
    (read,) = decoded(encoded(rows)).values()
    assert [record.headers for record in read] == [(("h", b"1"),), ()]


def test_only_the_rows_of_a_slice_are_encoded() -> None:
    headers = [[{"key": str(n), "value": b"%d" % n}] * (n % 3) for n in range(50)]
    whole = batch_of({"value": [b"%d" % n for n in range(50)], "headers": headers})
    (read,) = decoded(encoded(whole.slice(13, 20), "u")).values()
    assert [record.value for record in read] == [b"%d" % n for n in range(13, 33)]
    wanted = [tuple((str(n), b"%d" % n) for _ in range(n % 3)) for n in range(13, 33)]
    assert [record.headers for record in read] == wanted


def test_the_error_names_a_column_that_is_neither_string_nor_binary() -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([1], pa.int32())})
    with pytest.raises(RowError, match="column value is int32, not a string or binary"):
        encoded(rows, "t")


def test_a_header_without_a_key_is_refused() -> None:
    rows = batch_of({"value": [b"v"], "headers": [[{"key": None, "value": b"1"}]]})
    with pytest.raises(RowError, match="a header without a key"):
        encoded(rows, "t")


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=60), st.integers(0, 5_000))
def test_batches_are_filled_up_to_their_maximum_size(sizes: list[int], batch_size: int) -> None:
    rows = batch_of({"value": [bytes(size) for size in sizes], "partition": [0] * len(sizes)})
    batches = [records for _, records in encoded(rows, "t", batch_size)]
    for records in batches:
        assert len(records.body) <= batch_size or records.records_count == 1
    for first, second in pairwise(batches):
        next_one = sizes[sum(b.records_count for b in batches[: batches.index(first) + 1])]
        assert len(first.body) + next_one + 30 * (first.records_count + 1) > batch_size
        assert second.records_count


def test_values_and_offsets_with_varints_of_every_length_are_written() -> None:
    sizes = [0, 63, 64, 8191, 8192, (1 << 17) - 1, 1 << 17, (1 << 20) + 1]
    rows = batch_of({"value": [bytes(size) for size in sizes], "partition": [0] * len(sizes)})
    ((_, records),) = encoded(rows, "t", 1 << 30)
    ((_, read),) = decoded([(TopicPartition("t", 0), records)]).items()
    assert [len(record.value or b"") for record in read] == sizes
    many = batch_of({"value": [b""] * 200_000, "partition": [0] * 200_000})
    (read,) = decoded(encoded(many, "t", 1 << 30)).values()
    assert len(read) == 200_000


def test_many_bytes_are_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_encode, "_MOST_BYTES", 1_000)
    rows = batch_of({"value": [b"%0100d" % n for n in range(100)], "partition": [0] * 100})
    batches = encoded(rows, "t")
    assert len(batches) > 10
    (read,) = decoded(batches).values()
    assert [record.value for record in read] == [b"%0100d" % n for n in range(100)]


def test_a_batch_without_rows_is_encoded_to_nothing() -> None:
    empty = batch_of({"value": [], "topic": []})
    assert encoder().topics(empty) == []
    assert encoded(empty) == []


def test_an_option_overrides_the_topic_column() -> None:
    rows = batch_of({"value": [b"v"], "topic": ["u"]})
    assert [partition.topic for partition, _ in encoded(rows, "t")] == ["t"]


def test_the_error_names_a_partition_that_does_not_exist() -> None:
    rows = batch_of({"value": [b"v", b"w"], "topic": ["t", "t"], "partition": [2, 3]})
    with pytest.raises(RowError, match="partition 3, but topic t has 3 partitions"):
        encoded(rows)


def test_topics_with_rows_for_unknown_partitions_are_reported() -> None:
    def outgrown(**columns: list[Any]) -> list[str]:
        return encoder().outgrown(batch_of(columns), COUNTS)

    assert outgrown(topic=["t"]) == outgrown(topic=["t"], partition=[None]) == []
    assert outgrown(topic=["t", "u", "t"], partition=[2, None, -1]) == []
    assert outgrown(topic=["t", "u", "t", ""], partition=[3, 0, None, 2]) == ["t", ""]
    rows = batch_of({"value": [b"v"], "partition": [1]})
    assert encoder("u").outgrown(rows, COUNTS) == ["u"]


def test_rows_without_a_topic_are_refused_as_by_sparks_own_connector() -> None:
    with pytest.raises(RowError, match="topic option required when no 'topic' attribute"):
        encoder().topics(batch_of({"value": [b"v"]}))
    with pytest.raises(RowError, match="null topic present in the data"):
        encoder().topics(batch_of({"value": [b"v", b"w"], "topic": ["t", None]}))
