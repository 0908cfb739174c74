"""Queries of Spark over SASL_SSL with exactly the rights of the recipes, and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

from oncelog_client.core.acl_bindings import AclOperation
from oncelog_client.spark.settings.rights import Right
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.spark.guarded import GuardedOncelog
from tests.spark.topics import Topics

QUERY_TIMEOUT_S = 120
ROWS = [b"0", b"1", b"2", b"3"]


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, len(ROWS), 1, 2).select(col("id").cast("string").alias("value"))


def read(spark: SparkSession, user: Mapping[str, str], topic: str) -> list[bytes]:
    frame = spark.read.format("oncelog").options(**user).option("subscribe", topic).load()
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def write(spark: SparkSession, user: Mapping[str, str], topic: str, **more: str) -> None:
    writer = numbers(spark).write.format("oncelog").mode("append").options(**user)
    writer.options(**more).option("topic", topic).save()


def copied(
    spark: SparkSession, user: Mapping[str, str], topic: str, checkpoint: Path, **more: str
) -> StreamingQuery:
    """Copy `<topic>-from` to the topic, with the topic's name as sink id."""
    source = spark.readStream.format("oncelog").options(**user).options(**more)
    rows = source.option("subscribe", f"{topic}-from").option("startingOffsets", "earliest").load()
    sink = rows.select("value").writeStream.format("oncelog").options(**user)
    sink = sink.option("topic", topic).option("sinkId", topic)
    return sink.option("checkpointLocation", str(checkpoint)).start()


def of_sink(name: str) -> tuple[Right, ...]:
    rights = sink_rights(name, [name], CommitKind.GROUP)
    return tuple(right for right in rights if not right.is_optional)


def test_batches_are_written_and_read_with_exactly_the_rights_of_the_recipes(
    spark: SparkSession, guarded: GuardedOncelog, name: str
) -> None:
    Topics(guarded.address).create(name)
    writer = guarded.user(f"w-{name}", of_sink(name))
    reader = guarded.user(f"r-{name}", source_rights([name]))
    write(spark, writer, name, txnAppId=name, txnVersion="0")
    assert read(spark, reader, name) == ROWS


def test_a_batch_write_without_app_id_needs_the_rights_of_its_prefix(
    spark: SparkSession, guarded: GuardedOncelog, name: str
) -> None:
    Topics(guarded.address).create(name)
    rights = sink_rights("spark-write-", [name], CommitKind.GROUP, is_prefix=True)
    write(spark, guarded.user(name, [right for right in rights if not right.is_optional]), name)
    assert sorted(filter(None, Topics(guarded.address).values(name))) == ROWS


def test_a_stream_copies_with_exactly_the_rights_of_both_recipes(
    spark: SparkSession, guarded: GuardedOncelog, name: str, tmp_path: Path
) -> None:
    topics = Topics(guarded.address)
    topics.create_all([name, f"{name}-from"])
    topics.append(f"{name}-from", ROWS)
    group = f"{name}-lag"
    rights = (*of_sink(name), *source_rights([f"{name}-from"], group=group))
    query = copied(spark, guarded.user(name, rights), name, tmp_path, commitOffsetsToGroup=group)
    query.processAllAvailable()
    # Spark reports a finished batch to the source with the next batch.
    topics.append(f"{name}-from", [b"4"])
    query.processAllAvailable()
    query.stop()
    assert sorted(filter(None, topics.values(name))) == [*ROWS, b"4"]


def test_a_query_of_spark_ends_with_the_name_of_a_missing_right_and_writes_nothing(
    spark: SparkSession, guarded: GuardedOncelog, name: str, tmp_path: Path
) -> None:
    """The tasks miss a right to a topic, or the driver misses the right to the sink's state."""
    topics = Topics(guarded.address)
    topics.create_all([name, f"{name}-from"])
    topics.append(f"{name}-from", ROWS)
    (source,), sink = source_rights([f"{name}-from"]), of_sink(name)
    for number, missing in enumerate((sink[0], sink[3])):
        left = [right for right in (source, *sink) if right != missing]
        user = guarded.user(f"{number}-{name}", left)
        query = copied(spark, user, name, tmp_path / str(number))
        with pytest.raises(StreamingQueryException, match=f"the principal needs {missing}"):
            query.awaitTermination(QUERY_TIMEOUT_S)
    user = guarded.user(f"r-{name}", [source._replace(operation=AclOperation.DESCRIBE)])
    with pytest.raises(PySparkException, match=f"the principal needs {source}"):
        read(spark, user, f"{name}-from")
    assert topics.values(name, committed=False) == []
