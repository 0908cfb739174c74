"""`spark.read` and `df.write` of the official connector."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.connector.log import Log
from tests.spark.connector.options import Options, anywhere, by_partition, sink, source
from tests.spark.connector.process import SparkError, SparkProcess
from tests.spark.topics import Row

T0 = 1_700_000_000_000
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

Cells = list[tuple[Any, ...]]


def read(connector: SparkProcess, options: Options, *columns: str) -> Cells:
    """Return these columns of all rows, sorted."""
    rows = connector.call("read", options=options)
    return sorted(tuple(row[name] for name in columns) for row in rows)


def test_a_read_has_every_column_with_its_type(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    log.create(topic, partitions=2)
    headers = (("h", b"\x00"), ("h", None))
    log.append(
        topic,
        [
            Row(b"a\xff", b"k", 0, headers, T0),
            Row(None, b"gone", 1, (), T0 + 1),
            Row(b"", None, 1, (), T0 + 2),
        ],
    )
    options = source(log, topic, includeHeaders="true")
    assert connector.call("schema", options=options) == [
        ["key", "binary"],
        ["value", "binary"],
        ["topic", "string"],
        ["partition", "int"],
        ["offset", "bigint"],
        ["timestamp", "timestamp"],
        ["timestampType", "int"],
        ["headers", "array<struct<key:string,value:binary>>"],
    ]
    rows = connector.call("read", options=options)
    assert sorted((tuple(row[name] for name in COLUMNS) for row in rows), key=lambda r: r[3:5]) == [
        ("k", "a\xff", topic, 0, 0, T0, 0, [{"key": name, "value": v} for name, v in LATIN]),
        ("gone", None, topic, 1, 0, T0 + 1, 0, None),
        (None, "", topic, 1, 1, T0 + 2, 0, None),
    ]


LATIN = [("h", "\x00"), ("h", None)]


def test_a_committed_read_has_no_record_of_an_aborted_transaction(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    log.create(topic, partitions=1)
    log.append_transaction(topic, [b"1", b"2"])
    log.append_transaction(topic, [b"aborted"], commit=False)
    log.append_transaction(topic, [b"3"])
    log.append_transaction(topic, [b"aborted too"], commit=False)
    # Each transaction ends with a marker, so offsets have gaps.
    assert read(connector, source(log, topic), "offset", "value") == [(0, "1"), (1, "2"), (5, "3")]
    everything = source(log, topic) | {"kafka.isolation.level": "read_uncommitted"}
    assert [value for _, value in read(connector, everything, "offset", "value")] == [
        *("1", "2", "aborted", "3", "aborted too")
    ]


def test_a_committed_read_ends_where_the_oldest_open_transaction_begins(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    log.create(topic, partitions=2)
    log.append(topic, [Row(b"before", partition=0), Row(b"beside", partition=1)])
    with log.open_transaction(topic, [Row(b"open", partition=0)]):
        log.append(topic, [Row(b"after", partition=0)])
        assert read(connector, source(log, topic), "value") == [("before",), ("beside",)]
    found = read(connector, source(log, topic), "value")
    assert found == [("after",), ("before",), ("beside",), ("open",)]


def test_topics_are_chosen_by_name_by_pattern_and_by_partition(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    names = [log.create(f"{topic}-{letter}") for letter in "abc"]
    for name in names:
        log.append(name, [Row(name[-1].encode() + b"0", partition=0)])
        log.append(name, [Row(name[-1].encode() + b"1", partition=1)])
    a, b, c = names

    def chosen(**how: str) -> list[str]:
        return [value for (value,) in read(connector, anywhere(log, **how), "value")]

    assert chosen(subscribe=f"{a},{c}") == ["a0", "a1", "c0", "c1"]
    # The pattern may match anywhere in the name, unless it has anchors.
    assert chosen(subscribePattern=f"{topic[2:]}-[bc]") == ["b0", "b1", "c0", "c1"]
    assert chosen(assign=f'{{"{a}":[1],"{b}":[0]}}') == ["a1", "b0"]


def test_a_read_begins_and_ends_at_offsets(connector: SparkProcess, log: Log, topic: str) -> None:
    log.create(topic, partitions=2)
    log.append(topic, [Row(b"%d" % i, partition=i % 2) for i in range(10)])
    options = source(
        log,
        topic,
        startingOffsets=by_partition(topic, {0: 2, 1: -2}),
        endingOffsets=by_partition(topic, {0: -1, 1: 3}),
    )
    assert read(connector, options, "partition", "offset", "value") == [
        *((0, 2, "4"), (0, 3, "6"), (0, 4, "8")),
        *((1, 0, "1"), (1, 1, "3"), (1, 2, "5")),
    ]


@pytest.mark.parametrize("how", ["of each partition", "of all"])
def test_a_read_begins_and_ends_at_timestamps(
    connector: SparkProcess, log: Log, topic: str, how: str
) -> None:
    log.create(topic, partitions=2)
    log.append(topic, [Row(b"%d" % i, partition=i % 2, timestamp_ms=T0 + i) for i in range(10)])
    limits = {
        "of each partition": {
            "startingOffsetsByTimestamp": by_partition(topic, {0: T0 + 3, 1: T0 + 3}),
            "endingOffsetsByTimestamp": by_partition(topic, {0: T0 + 7, 1: T0 + 99}),
        },
        "of all": {"startingTimestamp": str(T0 + 3), "endingTimestamp": str(T0 + 7)},
    }[how]
    # The end is the first offset at or after that time, or the end of the log.
    expected = {
        "of each partition": ["3", "4", "5", "6", "7", "9"],
        "of all": ["3", "4", "5", "6"],
    }[how]
    found = read(connector, source(log, topic, **limits), "value")
    assert [value for (value,) in found] == expected


def test_a_start_time_after_every_record_is_an_error_unless_an_option_allows_it(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    log.create(topic, partitions=1)
    log.append(topic, [Row(b"old", timestamp_ms=T0)])
    options = source(log, topic, startingTimestamp=str(T0 + 1))
    with pytest.raises(SparkError, match="No offset matched"):
        read(connector, options, "value")
    assert read(connector, options | LENIENT, "value") == []


LENIENT = {"startingOffsetsByTimestampStrategy": "latest"}


def test_min_partitions_splits_a_partition_into_pieces(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    log.create(topic, partitions=1)
    log.append(topic, [b"%03d" % i for i in range(100)])
    options = source(log, topic, minPartitions="4")
    assert connector.call("parts", options=options) == 4
    assert read(connector, options, "offset", "value") == [(i, f"{i:03}") for i in range(100)]


def test_a_read_from_before_the_log_start_fails_with_fail_on_data_loss(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    log.create(topic, partitions=1)
    log.append(topic, [b"%d" % i for i in range(10)])
    log.delete_before(topic, 4)
    options = source(log, topic, startingOffsets=by_partition(topic, {0: 2}))
    with pytest.raises(SparkError):
        read(connector, options, "value")
    found = read(connector, options | {"failOnDataLoss": "false"}, "offset")
    assert found == [(offset,) for offset in range(4, 10)]


def test_a_write_has_every_column_and_uses_the_partition_of_each_row(
    connector: SparkProcess, log: Log, topic: str
) -> None:
    a, b = (log.create(f"{topic}-{letter}", partitions=3) for letter in "ab")
    rows = [
        *(row(a, "k1", "v\xff", [("h", "1"), ("h", None)], 2), row(b, None, "v2", None, 0)),
        *(row(a, "k3", None, [], 1), row(b, "k4", "", [("", "")], 2)),
    ]
    connector.call("write", rows=rows, options=sink(log))
    assert [
        (got.topic, got.partition, got.key, got.value, got.headers) for got in log.read(a, b)
    ] == [
        (a, 1, b"k3", None, ()),
        (a, 2, b"k1", b"v\xff", (("h", b"1"), ("h", None))),
        (b, 0, None, b"v2", ()),
        (b, 2, b"k4", b"", (("", b""),)),
    ]


def row(topic: str, key: str | None, value: str | None, headers: Any, partition: int) -> Any:
    """Return a row of the sink with all columns."""
    cells = {"topic": topic, "key": key, "value": value, "headers": headers}
    return cells | {"partition": partition}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_written_with_any_codec_are_read_back(
    connector: SparkProcess, log: Log, topic: str, codec: str
) -> None:
    log.create(topic, partitions=2)
    rows = [{"key": f"k{i}", "value": f"{i:04}" * 50} for i in range(1000)]
    connector.call("write", rows=rows, options=sink(log, topic, **{COMPRESSION: codec}))
    found = read(connector, source(log, topic), "key", "value")
    assert found == sorted((row["key"], row["value"]) for row in rows)
    # Another client reads the same number of rows, so no row is there twice.
    assert {len(log.values(topic))} == {1000}


COMPRESSION = "kafka.compression.type"
