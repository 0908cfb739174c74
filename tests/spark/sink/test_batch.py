"""`df.write` and foreachBatch into oncelog."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.functions import array, col, lit, struct

from oncelog_client import ConsumerRecord
from tests.harness.broker import Oncelog
from tests.spark.sink.checkpoints import forget_last_commit
from tests.spark.topics import Row, Topics

RUN_TIMEOUT_S = 60


def writing(frame: DataFrame, broker: Oncelog, **options: str) -> DataFrameWriter:
    return (
        frame.write.format("oncelog")
        .mode("append")
        .option("kafka.bootstrap.servers", broker.address)
        .options(**options)
    )


def numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).select(col("id").cast("string").alias("value"))


def values(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


def test_all_columns_have_the_meaning_of_sparks_own_sink(
    spark: SparkSession, broker: Oncelog, topics: Topics, name: str
) -> None:
    first, second = topics.create(f"{name}-a", 3), topics.create(f"{name}-b", 3)
    headers = array(
        struct(lit("h").alias("key"), lit(b"1").alias("value")),
        struct(lit("h").alias("key"), lit(None).cast("binary").alias("value")),
    )
    frame = spark.createDataFrame(
        [(first, 2, "k", "v"), (second, None, None, None), (second, 0, "", "")],
        "topic string, partition int, key string, value string",
    ).withColumn("headers", headers)
    writing(frame, broker).save()
    (in_first,) = topics.read(first)
    assert (in_first.partition, in_first.key, in_first.value) == (2, b"k", b"v")
    assert in_first.headers == (("h", b"1"), ("h", None))
    assert {(record.key, record.value) for record in topics.read(second)} == {
        (None, None),
        (b"", b""),
    }
    # The option has precedence over the column.
    third = topics.create(f"{name}-c", 3)
    writing(frame, broker, topic=third).save()
    assert len(topics.read(third)) == 3


def test_keys_get_the_partitions_of_kafkas_default_partitioner(
    spark: SparkSession, broker: Oncelog, topics: Topics, name: str
) -> None:
    by_spark, by_client = topics.create(f"{name}-a", 5), topics.create(f"{name}-b", 5)
    frame = numbers(spark, 50).select(col("value").alias("key"), "value")
    writing(frame, broker, topic=by_spark).save()
    topics.append(by_client, [Row(value, value) for value in values(50)])

    def places(records: list[ConsumerRecord]) -> dict[bytes | None, int]:
        return {record.key: record.partition for record in records}

    assert places(topics.read(by_spark)) == places(topics.read(by_client))


def test_a_version_of_an_application_is_written_once(
    spark: SparkSession, broker: Oncelog, topics: Topics, name: str
) -> None:
    target = topics.create(name)
    for _ in range(3):
        writing(numbers(spark, 5), broker, topic=target, txnAppId=name, txnVersion="3").save()
    assert sorted(value or b"" for value in topics.values(target)) == values(5)
    # The version is older than the last written version.
    writing(numbers(spark, 5), broker, topic=target, txnAppId=name, txnVersion="2").save()
    assert len(topics.values(target)) == 5
    # Versions may have gaps.
    writing(numbers(spark, 5), broker, topic=target, txnAppId=name, txnVersion="9").save()
    assert len(topics.values(target)) == 10


def test_a_write_without_a_version_is_atomic_and_stores_no_state(
    spark: SparkSession, broker: Oncelog, topics: Topics, name: str
) -> None:
    target = topics.create(name)
    for _ in range(2):
        writing(numbers(spark, 7, 3), broker, topic=target).save()
    assert len(topics.values(target)) == 14
    # One row of one task cannot be written.
    broken = numbers(spark, 6, 3).withColumn(
        "partition", (col("value") == "5").cast("int") * lit(99)
    )
    with pytest.raises(PySparkException, match="99"):
        writing(broken, broker, topic=target).save()
    assert len(topics.values(target)) == 14
    # The aborted rows do not delay readers.
    assert sum(topics.end_offsets(target).values()) == sum(
        topics.end_offsets(target, committed=False).values()
    )


def test_update_mode_through_foreach_batch_is_exactly_once_when_a_batch_is_replayed(
    spark: SparkSession, broker: Oncelog, topics: Topics, name: str, checkpoint: str
) -> None:
    source, target = topics.create(f"{name}-in"), topics.create(f"{name}-out")

    def run() -> None:
        rows = (
            spark.readStream.format("oncelog")
            .option("kafka.bootstrap.servers", broker.address)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
        )

        def write(batch: DataFrame, number: int) -> None:
            frame = batch.select("key", col("count").cast("string").alias("value"))
            writing(frame, broker, topic=target, txnAppId=name, txnVersion=str(number)).save()

        query = (
            rows.groupBy("key")
            .count()
            .writeStream.outputMode("update")
            .foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(RUN_TIMEOUT_S)

    topics.append(source, [Row(b"", b"a"), Row(b"", b"b"), Row(b"", b"a")])
    run()
    topics.append(source, [Row(b"", b"a")])
    run()
    written = [(record.key, record.value) for record in topics.read(target)]
    assert sorted(written, key=str) == [(b"a", b"2"), (b"a", b"3"), (b"b", b"1")]
    forget_last_commit(checkpoint)
    run()
    assert len(topics.read(target)) == 3


def test_unsupported_save_modes_and_columns_are_refused_with_the_reason(
    spark: SparkSession, broker: Oncelog, name: str
) -> None:
    frame = numbers(spark, 1)
    with pytest.raises(AnalysisException, match="a log is only appended to"):
        writing(frame, broker, topic=name).mode("overwrite").save()
    with pytest.raises(AnalysisException, match="Set the option 'topic'"):
        writing(frame, broker).save()
    with pytest.raises(AnalysisException, match="txnVersion"):
        writing(frame, broker, topic=name, txnAppId=name).save()
