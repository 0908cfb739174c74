"""A query with a lost checkpoint continues at its sink's last commit."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.source.reading import DEADLINE_S, Stream
from tests.spark.topics import Topics


def copy(
    spark: SparkSession, log: Topics, source: str, target: str, checkpoint: str, **options: str
) -> None:
    """Copy all records of one topic to another, through the sink `sink-<source>`."""
    servers = {"kafka.bootstrap.servers": log.bootstrap}
    rows = spark.readStream.format("oncelog").options(subscribe=source, **servers, **options).load()
    writer = rows.select("value").writeStream.format("oncelog").options(**servers)
    sink = {"topic": target, "sinkId": f"sink-{source}", "onNewCheckpoint": "adopt"}
    query = writer.options(checkpointLocation=checkpoint, **sink).trigger(availableNow=True).start()
    assert query.awaitTermination(int(DEADLINE_S)), "the query is still running"


def test_a_lost_checkpoint_causes_neither_a_loss_nor_a_duplicate(
    spark: SparkSession, log: Topics, name: str, checkpoint: str
) -> None:
    source, target = log.create(name), log.create(f"{name}-copy")
    log.append(source, [b"a", b"b", b"c"])
    copy(spark, log, source, target, checkpoint, startingOffsets="earliest")
    shutil.rmtree(checkpoint)
    log.append(source, [b"d", b"e"])
    copy(spark, log, source, target, checkpoint, startingOffsets=f"sink:sink-{source}")
    assert Counter(log.decided_values(target)) == Counter([b"a", b"b", b"c", b"d", b"e"])


def test_a_query_cannot_start_at_a_sink_that_has_committed_nothing(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    topics.create(name)
    stream = Stream(spark, topics, checkpoint, subscribe=name, startingOffsets="sink:unknown")
    with pytest.raises(StreamingQueryException, match="this sink has committed nothing"):
        stream.run()
