"""The listener for the progress of queries, in a real Spark that reads from a real broker."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelog_client.spark.listener import ProgressListener
from oncelog_client.spark.offsets.progress import BatchProgress
from tests.spark.topics import Topics

DEADLINE_S = 60


def start(spark: SparkSession, topics: Topics, topic: str, checkpoint: str) -> StreamingQuery:
    """Start a query that reads two records at a time and drops them."""
    source = (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2)
        .load()
    )
    write = source.writeStream.format("noop").queryName(topic)
    return write.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def with_rows(progress: queue.Queue[BatchProgress], query: str, count: int) -> list[BatchProgress]:
    """Wait until the query has run this number of batches with rows, and return their progress.
    Skip batches without rows, and reports of earlier queries."""
    batches: list[BatchProgress] = []
    while len(batches) < count:
        batch = progress.get(timeout=DEADLINE_S)
        batches += [batch] if batch.rows and batch.query == query else []
    return batches


def test_lag_falls_to_0_batch_by_batch(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    topics.create(name, partitions=1)
    topics.append(name, [b"%d" % number for number in range(5)])
    progress: queue.Queue[BatchProgress] = queue.Queue()
    listener = ProgressListener(progress.put)
    spark.streams.addListener(listener)
    try:
        start(spark, topics, name, checkpoint).awaitTermination(DEADLINE_S)
        batches = with_rows(progress, name, 3)
    finally:
        spark.streams.removeListener(listener)
    assert [batch.rows for batch in batches] == [2, 2, 1]
    (partitions,) = zip(*(batch.partitions for batch in batches), strict=True)
    assert [(partition.topic, partition.partition) for partition in partitions] == [(name, 0)] * 3
    assert [(partition.start, partition.end, partition.lag) for partition in partitions] == [
        (0, 2, 3),
        (2, 4, 1),
        (4, 5, 0),
    ]
    assert all(partition.rate > 0 for partition in partitions)
    assert batches[0].metrics()["maxOffsetsBehindLatest"] == "3"


def test_a_line_for_each_batch_goes_to_stderr(
    spark: SparkSession,
    topics: Topics,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topics.create(name, partitions=1)
    topics.append(name, [b"one"])
    progress: queue.Queue[BatchProgress] = queue.Queue()
    printing, waiting = ProgressListener(), ProgressListener(progress.put)
    for listener in (printing, waiting):
        spark.streams.addListener(listener)
    try:
        start(spark, topics, name, str(tmp_path / "checkpoint")).awaitTermination(DEADLINE_S)
        (batch,) = with_rows(progress, name, 1)
    finally:
        for listener in (printing, waiting):
            spark.streams.removeListener(listener)
    assert f"{name}: batch {batch.batch_id}, 1 rows in " in capsys.readouterr().err
