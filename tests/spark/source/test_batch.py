"""`spark.read.format("oncelog")`: every option of a batch read, on oncelog and on Apache Kafka."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
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

from tests.spark.source.changing import create_compacted, open_transaction, truncate
from tests.spark.source.reading import frame, values
from tests.spark.topics import Row, Topics

T0 = 1_700_000_000_000
# Records with the timestamp T0 are older than the default retention.
KEPT = {"retention.ms": "-1"}
HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
OFFICIAL = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


def at(timestamp_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(timestamp_ms / 1000)


def filled(log: Topics, name: str) -> str:
    """Write five records, a second apart, to each of two partitions: 00 to 04 and 10 to 14."""
    log.create(name, 2, KEPT)
    log.append(
        name,
        [
            Row(b"%d%d" % (partition, number), None, partition, (), T0 + 1_000 * number)
            for partition in range(2)
            for number in range(5)
        ],
    )
    return name


def test_a_batch_has_the_columns_of_sparks_kafka_connector(
    spark: SparkSession, log: Topics, name: str
) -> None:
    log.create(name, 2, KEPT)
    rows = [
        Row(b"a\xff", b"k", 0, (("h", b"\x00"), ("h", None)), T0),
        Row(None, b"gone", 1, (), T0 + 1),
        Row(b"", None, 1, (), T0 + 2),
    ]
    log.append(name, rows)
    plain = frame(spark, log, subscribe=name)
    assert plain.schema == OFFICIAL
    found = frame(spark, log, subscribe=name, includeHeaders="true")
    assert found.schema == StructType([*OFFICIAL.fields, StructField("headers", HEADERS)])
    headers = [("h", b"\x00"), ("h", None)]
    assert [tuple(row) for row in found.orderBy("partition", "offset").collect()] == [
        (b"k", b"a\xff", name, 0, 0, at(T0), 0, headers),
        (b"gone", None, name, 1, 0, at(T0 + 1), 0, None),
        (None, b"", name, 1, 1, at(T0 + 2), 0, None),
    ]
    assert plain.orderBy("partition", "offset").collect() == [
        row[:7] for row in found.orderBy("partition", "offset").collect()
    ]


def test_a_timestamp_is_a_point_in_time_whatever_the_default_type_of_spark(
    spark: SparkSession, topics: Topics, name: str
) -> None:
    topics.create(name, 1, KEPT)
    topics.append(name, [Row(b"a", timestamp_ms=T0)])
    setting = "spark.sql.timestampType"
    spark.conf.set(setting, "TIMESTAMP_NTZ")
    try:
        found = frame(spark, topics, subscribe=name)
        assert found.schema == OFFICIAL
        assert [row.timestamp for row in found.collect()] == [at(T0)]
    finally:
        spark.conf.unset(setting)


def test_a_schema_selects_columns(spark: SparkSession, topics: Topics, name: str) -> None:
    filled(topics, name)
    reader = spark.read.format("oncelog").option("subscribe", name)
    reader = reader.option("kafka.bootstrap.servers", topics.bootstrap)
    found = reader.schema("offset bigint, value binary").load()
    assert sorted(map(tuple, found.collect()))[:2] == [(0, b"00"), (0, b"10")]
    with pytest.raises(PySparkException, match="column value is binary, not string"):
        reader.schema("value string").load().collect()
    with pytest.raises(PySparkException, match="no column 'payload': there are key binary"):
        reader.schema("payload binary").load().collect()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "00 01 02 03 04 10 11 12 13 14"),
        (
            {"startingOffsets": "earliest", "endingOffsets": "latest"},
            "00 01 02 03 04 10 11 12 13 14",
        ),
        ({"startingOffsets": {0: 3, 1: -2}, "endingOffsets": {0: -1, 1: 2}}, "03 04 10 11"),
        ({"startingTimestamp": T0 + 3_000}, "03 04 13 14"),
        ({"startingTimestamp": T0 + 2_500, "endingTimestamp": T0 + 3_500}, "03 13"),
        ({"endingTimestamp": T0 + 99_000}, "00 01 02 03 04 10 11 12 13 14"),
        (
            {
                "startingOffsetsByTimestamp": {0: T0 + 4_000, 1: T0 + 1_000},
                "endingOffsetsByTimestamp": {0: T0 + 9_000, 1: T0 + 2_000},
            },
            "04 11",
        ),
        (
            {
                "startingTimestamp": T0 + 4_000,
                "startingOffsetsByTimestamp": {0: T0, 1: T0},
                "startingOffsets": "earliest",
            },
            "04 14",
        ),
        (
            {
                "startingTimestamp": T0 + 99_000,
                "startingOffsetsByTimestampStrategy": "latest",
            },
            "",
        ),
    ],
)
def test_a_batch_reads_from_its_start_to_its_end(
    spark: SparkSession, log: Topics, name: str, options: dict[str, Any], wanted: str
) -> None:
    filled(log, name)
    given = {
        option: json.dumps({name: value}) if isinstance(value, dict) else str(value)
        for option, value in options.items()
    }
    assert values(frame(spark, log, subscribe=name, **given)) == wanted.encode().split()


def test_subscribe_subscribe_pattern_and_assign_select_partitions(
    spark: SparkSession, log: Topics, name: str
) -> None:
    first, second = filled(log, f"{name}.a"), filled(log, f"{name}.b")
    log.create(f"{name}.empty")
    both = [f"{partition}{number}".encode() for partition in (0, 1) for number in range(5)] * 2
    assert values(frame(spark, log, subscribe=f"{first}, {second}")) == both
    assert values(frame(spark, log, subscribePattern=f"{name}\\..*")) == both
    assigned = json.dumps({first: [1], second: [0]})
    assert values(frame(spark, log, assign=assigned)) == both[5:10] + both[:5]


def test_more_tasks_read_the_same_records(spark: SparkSession, topics: Topics, name: str) -> None:
    filled(topics, name)
    whole = frame(spark, topics, subscribe=name)
    assert whole.rdd.getNumPartitions() == 2
    for options, tasks in (
        ({"minPartitions": "5"}, 6),
        ({"maxRecordsPerPartition": "2"}, 6),
        ({"minPartitions": "10", "maxRecordsPerPartition": "2"}, 10),
    ):
        found = frame(spark, topics, subscribe=name, **options)
        assert found.rdd.getNumPartitions() == tasks
        assert values(found) == values(whole)


def test_only_committed_records_are_read_by_default(
    spark: SparkSession, log: Topics, name: str
) -> None:
    log.create(name, partitions=1)
    log.append(name, [b"a"])
    log.append_transaction(name, [b"b", b"c"])
    log.append_transaction(name, [b"d"], commit=False)
    log.append(name, [b"e"])
    with open_transaction(log, name, [b"f"]):
        log.append(name, [b"g"])
        committed = frame(spark, log, subscribe=name)
        assert values(committed) == [b"a", b"b", b"c", b"e"]
        level = {"kafka__isolation__level": "read_uncommitted"}
        uncommitted = frame(spark, log, subscribe=name, **level)
        assert values(uncommitted) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_a_compacted_topic_has_gaps_and_no_losses(
    spark: SparkSession, log: Topics, name: str
) -> None:
    create_compacted(log, name, keys=3, records=40)
    found = frame(spark, log, subscribe=name).select("key", "offset").collect()
    assert 3 <= len(found) < 40
    assert max(row.offset for row in found) == 39
    assert len({bytes(row.key) for row in found}) == 3


def test_truncated_offsets_are_an_error_or_are_left_out(
    spark: SparkSession, log: Topics, name: str
) -> None:
    filled(log, name)
    truncate(log, name, 0, before=3)
    given = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 1, "1": 0}})}
    with pytest.raises(PySparkException) as caught:
        frame(spark, log, **given).collect()
    message = f"topic {name}, partition 0: offset 1 was next, but the log begins at offset 3 now"
    assert message in str(caught.value)
    kept = values(frame(spark, log, failOnDataLoss="false", **given))
    assert kept == b"03 04 10 11 12 13 14".split()


def test_offsets_beyond_the_log_are_an_error_or_are_left_out(
    spark: SparkSession, topics: Topics, name: str
) -> None:
    filled(topics, name)
    given = {"subscribe": name, "endingOffsets": json.dumps({name: {"0": 9, "1": 1}})}
    message = f"topic {name}, partition 0 was to be read up to offset 9, but ends at offset 5"
    with pytest.raises(PySparkException, match=message):
        frame(spark, topics, **given).collect()
    kept = values(frame(spark, topics, failOnDataLoss="false", **given))
    assert kept == b"00 01 02 03 04 10".split()


def test_undecided_offsets_are_always_an_error(spark: SparkSession, log: Topics, name: str) -> None:
    log.create(name, partitions=1)
    log.append(name, [b"a"])
    given = {"subscribe": name, "endingOffsets": json.dumps({name: {"0": 2}})}
    with open_transaction(log, name, [b"b", b"c"]):
        for fails in ("true", "false"):
            with pytest.raises(PySparkException) as caught:
                frame(spark, log, failOnDataLoss=fails, **given).collect()
            message = "partition 0 is not decided yet up to offset 2: its last stable offset is 1"
            assert f"topic {name}, {message}" in str(caught.value)
            assert f"oncelog transactions blocking {name}" in str(caught.value)
            assert "failOnDataLoss" not in str(caught.value)
        uncommitted = {"kafka__isolation__level": "read_uncommitted"}
        assert values(frame(spark, log, **uncommitted, **given)) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "there is no nowhere at 127.0.0.1"),
        ({"subscribe": "{}, nowhere"}, "there is no nowhere at 127.0.0.1"),
        ({"assign": '{{"{}":[7]}}'}, "there is no {}-7 at 127.0.0.1"),
        (
            {"subscribe": "{}", "startingOffsets": '{{"{}":{{"0":1,"2":1}}}}'},
            "must name all partitions, not named: {0}-1; not there: {0}-2",
        ),
        (
            {"subscribe": "{}", "startingTimestamp": "1900000000000"},
            "{}-0 has no record at or after timestamp 1900000000000",
        ),
        ({"subscribe": "{}", "startingOffsets": "latest"}, "latest (-1) is no start of a batch"),
        ({"subscribe": "{}", "minPartitions": "0"}, "option minPartitions='0': must be 1 or more"),
        ({"subscribe": "{}", "kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        ({"subscribe": "{}", "assign": "x"}, "only one of subscribe, subscribePattern, assign"),
    ],
)
def test_the_error_says_what_cannot_be_read(
    spark: SparkSession, topics: Topics, name: str, options: dict[str, str], message: str
) -> None:
    filled(topics, name)
    given = {option: value.format(name) for option, value in options.items()}
    with pytest.raises(PySparkException) as caught:
        frame(spark, topics, **given).collect()
    assert message.format(name) in str(caught.value)
