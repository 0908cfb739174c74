"""Micro-batches of a real Spark into oncelog."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.broker import Oncelog
from tests.spark.topics import Topics

RUN_TIMEOUT_S = 60


def run(
    spark: SparkSession, broker: Oncelog, checkpoint: str, source: str, target: str, **options: str
) -> StreamingQuery:
    """Copy what there is in `source` to `target`, in one or more batches."""
    rows = (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", broker.address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .options(**{name: value for name, value in options.items() if name.startswith("max")})
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("oncelog")
        .option("kafka.bootstrap.servers", broker.address)
        .option("checkpointLocation", checkpoint)
        .option("topic", target)
        .options(**{name: value for name, value in options.items() if not name.startswith("max")})
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(RUN_TIMEOUT_S)
    return query


def test_every_row_of_every_batch_is_written_once(
    spark: SparkSession, broker: Oncelog, topics: Topics, name: str, checkpoint: str
) -> None:
    source, target = topics.create(f"{name}-in"), topics.create(f"{name}-out")
    topics.append(source, [b"%d" % number for number in range(10)])
    run(spark, broker, checkpoint, source, target, sinkId=name, maxOffsetsPerTrigger="4")
    assert sorted(value or b"" for value in topics.values(target)) == sorted(
        b"%d" % number for number in range(10)
    )
