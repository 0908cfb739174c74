"""`spark.read.format("oncelog")` on a real Spark and a real broker."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.topics import Row, Topics

T0 = 1_700_000_000_000


def test_a_batch_has_every_column_of_the_official_source(
    spark: SparkSession, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    rows = [
        Row(b"a\xff", b"k", 0, (("h", b"\x00"), ("h", None)), T0),
        Row(None, b"gone", 1, (), T0 + 1),
        Row(b"", None, 1, (), T0 + 2),
    ]
    topics.append(name, rows)
    frame = (
        spark.read.format("oncelog")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", name)
        .load()
    )
    found = frame.collect()
    assert len(found) == 3
