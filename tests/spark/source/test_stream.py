"""`spark.readStream.format("oncelog")`: the start of a query, the size of a micro-batch, and equal
records in a repeated micro-batch."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from oncelog_client.values import TopicPartition
from tests.spark.session import Spark
from tests.spark.source.changing import committed, open_transaction
from tests.spark.source.reading import Stream, stop, wait_until
from tests.spark.topics import Row, Topics

T0 = 1_700_000_000_000
# Records with the timestamp T0 are older than the default retention.
KEPT = {"retention.ms": "-1"}


def filled(log: Topics, name: str, count: int = 5) -> str:
    """Create two partitions with this number of records each, a second apart: values 00 to 04 and
    10 to 14."""
    log.create(name, 2, KEPT)
    append(log, name, range(count))
    return name


def append(log: Topics, name: str, numbers: range, partitions: tuple[int, ...] = (0, 1)) -> None:
    log.append(
        name,
        [
            Row(b"%d%d" % (partition, number), None, partition, (), T0 + 1_000 * number)
            for number in numbers
            for partition in partitions
        ],
    )


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"startingOffsets": "earliest"}, (0, 0)),
        ({}, (5, 5)),
        ({"startingOffsets": {"0": 3, "1": -2}}, (3, 0)),
        ({"startingTimestamp": T0 + 3_000, "startingOffsets": "earliest"}, (3, 3)),
    ],
)
def test_the_first_batch_is_empty_and_fixes_the_start(
    spark: SparkSession,
    topics: Topics,
    name: str,
    checkpoint: str,
    options: dict[str, Any],
    start: tuple[int, int],
) -> None:
    filled(topics, name)
    given = {
        option: json.dumps({name: value}) if isinstance(value, dict) else str(value)
        for option, value in options.items()
    }
    stream = Stream(spark, topics, checkpoint, subscribe=name, **given)
    batches = stream.run()
    first, second = start
    assert batches[0]["sources"][0]["endOffset"] == {name: {"0": first, "1": second}}
    assert stream.sizes[0] == 0
    assert stream.values == [
        *(b"0%d" % number for number in range(first, 5)),
        *(b"1%d" % number for number in range(second, 5)),
    ]


def test_a_repeated_first_batch_has_the_same_start(
    spark: SparkSession, log: Topics, name: str, checkpoint: str
) -> None:
    filled(log, name)
    stream = Stream(spark, log, checkpoint, subscribe=name, startingOffsets="latest")
    stream.run()
    # The driver dies before batch 0 is done. More records arrive before its restart.
    append(log, name, range(5, 7))
    stream.forget_commit(0)
    stream.run()
    assert stream.values == [b"05", b"06", b"15", b"16"]
    assert [batch_id for batch_id, _ in stream.batches] == [0, 0, 1]


def test_a_repeated_batch_reads_the_same_records(
    spark: SparkSession, log: Topics, name: str, checkpoint: str
) -> None:
    filled(log, name)
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    stream = Stream(spark, log, checkpoint, **options)
    stream.run()
    assert [batch_id for batch_id, _ in stream.batches] == [0, 1, 2]
    append(log, name, range(5, 7))
    stream.forget_commit(2)
    # Changed options have no effect on a repeated batch.
    stream.options = {"subscribe": name, "maxOffsetsPerTrigger": "1", "minPartitions": "4"}
    stream.run()
    assert stream.batches[3] == stream.batches[2]
    assert [len(rows) for _, rows in stream.batches[4:]] == [1, 1, 1, 1]
    assert stream.values == sorted(
        [*stream_values(range(7)), *(value for _, _, value in stream.batches[2][1])]
    )


def stream_values(numbers: range) -> list[bytes]:
    return [b"%d%d" % (partition, number) for partition in (0, 1) for number in numbers]


def test_available_now_reads_only_existing_records_and_shares_the_limit_by_backlog(
    spark: SparkSession, log: Topics, name: str, checkpoint: str
) -> None:
    filled(log, name, 2)
    append(log, name, range(2, 10), partitions=(1,))
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    stream = Stream(spark, log, checkpoint, **options)
    stream.after_batch = lambda batch_id: append(log, name, range(90, 92)) if not batch_id else None
    batches = stream.run()
    assert stream.sizes == [0, 6, 6]
    by_partition = [sum(1 for row in rows if row[0] == 0) for _, rows in stream.batches]
    assert by_partition == [0, 1, 1]
    assert stream.values == [b"00", b"01", *(b"1%d" % number for number in range(10))]
    target = {name: {"0": 2, "1": 10}}
    assert [batch["sources"][0]["latestOffset"] for batch in batches] == [target] * 3
    stream.after_batch = lambda batch_id: None
    stream.run()
    assert stream.values[2:4] == [b"090", b"091"]


def test_trigger_once_reads_all_records_in_one_batch_and_repeats_this_batch_exactly(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    filled(topics, name)
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    stream = Stream(spark, topics, checkpoint, **options)
    stream.run(once=True)
    assert stream.sizes == [10]
    append(topics, name, range(5, 7))
    stream.forget_commit(0)
    stream.run(once=True)
    assert stream.batches[1] == stream.batches[0]
    stream.run(once=True)
    assert stream.values[-1] == b"16"
    assert len(stream.values) == 24


def test_a_query_reads_up_to_an_open_transaction_and_skips_aborted_ones(
    spark: SparkSession, log: Topics, name: str, checkpoint: str
) -> None:
    log.create(name, partitions=1)
    log.append(name, [b"a"])
    log.append_transaction(name, [b"b"], commit=False)
    log.append_transaction(name, [b"c"])
    stream = Stream(spark, log, checkpoint, subscribe=name, startingOffsets="earliest")
    with open_transaction(log, name, [b"d"]):
        log.append(name, [b"e"])
        stream.run()
        assert stream.values == [b"a", b"c"]
    batches = stream.run()
    assert stream.values == [b"a", b"c", b"d", b"e"]
    ends = log.end_offsets(name)
    assert batches[-1]["sources"][0]["endOffset"] == {name: {"0": ends[0]}}


def test_read_uncommitted_reads_up_to_the_high_watermark(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    topics.create(name, partitions=1)
    topics.append_transaction(name, [b"a"], commit=False)
    level = {"kafka__isolation__level": "read_uncommitted"}
    options = {"subscribe": name, "startingOffsets": "earliest"}
    stream = Stream(spark, topics, checkpoint, **options, **level)
    with open_transaction(topics, name, [b"b"]):
        stream.run()
        assert stream.values == [b"a", b"b"]
        # A position beyond the last stable offset is no loss: the query just finds no new records.
        stream.options = options
        stream.run()
        assert stream.values == [b"a", b"b"]
    topics.append(name, [b"c"])
    stream.run()
    assert stream.values == [b"a", b"b", b"c"]


def test_few_records_wait_no_longer_than_the_maximum_delay(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    filled(topics, name)
    options = {"subscribe": name, "startingOffsets": "earliest", "minOffsetsPerTrigger": "4"}
    stream = Stream(spark, topics, checkpoint, **options, maxTriggerDelay="1h")
    query = stream.start()
    wait_until(lambda: len(stream.values) == 10, query, "the first batch is not delayed")
    append(topics, name, range(5, 6))
    query.processAllAvailable()
    assert len(stream.values) == 10
    append(topics, name, range(6, 7))
    wait_until(lambda: len(stream.values) == 14, query, "four records are read without a delay")
    stop(query)
    append(topics, name, range(7, 8))
    stream.options["maxTriggerDelay"] = "1ms"
    query = stream.start()
    wait_until(
        lambda: len(stream.values) == 16, query, "two records are enough after the maximum delay"
    )
    stop(query)


def test_options_without_effect_are_logged_at_each_start_of_a_query(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str, spark_driver: Spark
) -> None:
    topics.create(name)
    misspelt = {f"maxOffsetPerTrigger{name[2:5]}": "1"}
    stream = Stream(spark, topics, checkpoint, subscribe=name, **misspelt)
    remark = f"there is no option '{next(iter(misspelt)).lower()}'"
    for starts in (1, 2):
        stream.run_until(partial(spark_driver.wait_for_log, remark, starts))
        assert spark_driver.wait_for_log(remark, starts) == starts


def test_positions_are_committed_for_a_group_one_batch_late(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    filled(topics, name)
    group = f"lag-of-{name}"
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    stream = Stream(spark, topics, checkpoint, **options, commitOffsetsToGroup=group)
    stream.run()
    assert committed(topics, group) == {TopicPartition(name, 0): 3, TopicPartition(name, 1): 3}
    append(topics, name, range(5, 6))
    stream.run()
    assert committed(topics, group) == {TopicPartition(name, 0): 5, TopicPartition(name, 1): 5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets='latest': a stream has no end"),
        ({"subscribe": "nowhere"}, "there is no nowhere at 127.0.0.1"),
    ],
)
def test_the_error_of_the_query_says_what_is_wrong(
    spark: SparkSession,
    topics: Topics,
    name: str,
    checkpoint: str,
    options: dict[str, str],
    message: str,
) -> None:
    topics.create(name)
    with pytest.raises((PySparkException, StreamingQueryException)) as caught:
        Stream(spark, topics, checkpoint, **{"subscribe": name, **options}).run()
    assert message in str(caught.value)
