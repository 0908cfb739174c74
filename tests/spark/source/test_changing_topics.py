"""Topics that grow, shrink, disappear and return while a query reads them. The query reports every
data loss."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.harness.broker import Oncelog
from tests.spark.session import Spark
from tests.spark.source.changing import delete, grow, truncate
from tests.spark.source.reading import Stream, failure_of, stop, wait_until
from tests.spark.topics import Row, Topics


@pytest.fixture
def stream(spark: SparkSession, log: Topics, name: str, checkpoint: str) -> Stream:
    """Return a query of a new topic with two partitions and two records in each."""
    log.create(name, partitions=2)
    append(log, name, 0, 2)
    options = {"subscribe": name, "startingOffsets": "earliest"}
    return Stream(spark, log, checkpoint, **options)


def append(log: Topics, name: str, first: int, end: int, partitions: int = 2) -> None:
    log.append(
        name,
        [
            Row(b"%d%d" % (partition, number), None, partition)
            for number in range(first, end)
            for partition in range(partitions)
        ],
    )


def test_new_partitions_are_read_from_their_first_record(
    log: Topics, name: str, stream: Stream
) -> None:
    query = stream.start()
    wait_until(lambda: len(stream.values) == 4, query, "the existing records are read")
    grow(log, name, 3)
    append(log, name, 2, 4, partitions=3)
    wait_until(lambda: len(stream.values) == 10, query, "the new partition is found")
    stop(query)
    assert stream.values == [b"00", b"01", b"02", b"03", b"10", b"11", b"12", b"13", b"22", b"23"]
    grow(log, name, 4)
    append(log, name, 4, 5, partitions=4)
    stream.run()
    assert stream.values[-1] == b"34"
    assert len(stream.values) == 14


@pytest.mark.parametrize("log", ["oncelog"], indirect=True)
def test_new_topics_of_a_pattern_are_read_from_their_first_record(
    log: Topics, name: str, stream: Stream
) -> None:
    del stream.options["subscribe"]
    stream.options["subscribePattern"] = f"{name}.*"
    stream.run()
    log.create(f"{name}-more", partitions=1)
    append(log, f"{name}-more", 7, 9, partitions=1)
    truncate(log, f"{name}-more", 0, before=1)
    stream.run()
    assert stream.values == [b"00", b"01", b"08", b"10", b"11"]


def test_a_truncated_log_is_an_error_with_both_offsets_or_a_warning(
    log: Topics, name: str, stream: Stream, spark_driver: Spark
) -> None:
    stream.run()
    append(log, name, 2, 6)
    truncate(log, name, 1, before=5)
    loss = f"topic {name}, partition 1: offset 2 was next, but the log begins at offset"
    assert f"{loss} 5 now" in stream.failure()
    assert stream.sizes[2:] == []
    truncate(log, name, 1, before=6)
    append(log, name, 6, 7)
    stream.options["failOnDataLoss"] = "false"
    stream.run_until(partial(spark_driver.wait_for_log, f"^{loss} 6 now"))
    assert stream.values == [*(b"0%d" % number for number in range(7)), b"10", b"11", b"16"]


def test_a_deleted_topic_is_an_error_with_both_offsets(
    log: Topics, name: str, stream: Stream
) -> None:
    query = stream.start()
    wait_until(lambda: len(stream.values) == 4, query, "the existing records are read")
    delete(log, name)
    message = failure_of(query)
    for partition in (0, 1):
        assert (
            f"topic {name}, partition {partition} is gone:"
            " the records from offset 2 to offset 2 may not have been read"
        ) in message


@pytest.mark.parametrize("log", ["oncelog"], indirect=True)
def test_without_fail_on_data_loss_a_query_continues_after_a_topic_is_deleted(
    log: Topics, name: str, stream: Stream, spark_driver: Spark
) -> None:
    other = log.create(f"{name}-other", partitions=1)
    append(log, other, 8, 9, partitions=1)
    stream.options["subscribe"] = f"{name},{other}"
    stream.run()
    delete(log, other)
    append(log, name, 2, 3)
    gone = f"topic {other}, partition 0 is gone: the records from offset"
    assert f"{gone} 1 to an unknown end may not have been read" in stream.failure()
    stream.options["failOnDataLoss"] = "false"
    # The warning is at the beginning of a line. The previous run's error contains the same text,
    # but inside a line.
    batches = stream.run_until(partial(spark_driver.wait_for_log, f"^{gone}"))
    assert stream.values == [b"00", b"01", b"02", b"08", b"10", b"11", b"12"]
    assert batches[-1]["sources"][0]["endOffset"] == {name: {"0": 3, "1": 3}}
    assert spark_driver.wait_for_log(f"^{gone}") == 1


def test_a_recreated_topic_is_an_error_with_both_offsets(
    log: Topics, name: str, stream: Stream
) -> None:
    stream.run()
    delete(log, name)
    log.create(name, partitions=2)
    append(log, name, 5, 6)
    message = stream.failure()
    assert f"topic {name}, partition 1 was read up to offset 2, but ends at offset 1" in message


def test_without_fail_on_data_loss_a_recreated_topic_is_read_from_its_beginning(
    log: Topics, name: str, stream: Stream
) -> None:
    stream.options["failOnDataLoss"] = "false"
    query = stream.start()
    wait_until(lambda: len(stream.values) == 4, query, "the existing records are read")
    delete(log, name)
    log.create(name, partitions=2)
    append(log, name, 3, 9)
    wait_until(lambda: len(stream.values) == 16, query, "the new topic is read")
    stop(query)
    assert sorted(set(stream.values)) == stream.values


def test_a_query_waits_for_a_restarted_broker(
    spark: SparkSession, fresh_broker: Oncelog, name: str, tmp_path: Path
) -> None:
    topics = Topics(fresh_broker.address)
    topics.create(name, partitions=1)
    topics.append(name, [b"a"])
    options = {"subscribe": name, "startingOffsets": "earliest"}
    stream = Stream(spark, topics, str(tmp_path / "checkpoint"), **options)
    query = stream.start()
    wait_until(lambda: stream.values == [b"a"], query, "the existing records are read")
    fresh_broker.kill()
    fresh_broker.start()
    topics.append(name, [b"b"])
    wait_until(lambda: stream.values == [b"a", b"b"], query, "the broker is back")
    stop(query)
