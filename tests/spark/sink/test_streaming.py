"""Micro-batches that a real Spark writes to oncelog."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from oncelog_client import Admin
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION
from tests.spark.fail_points import FailPoints
from tests.spark.sink.checkpoints import forget_last_commit
from tests.spark.topics import Topics

RUN_TIMEOUT_S = 60


class Copy:
    """A query that copies the existing records of one topic to another and then ends."""

    def __init__(
        self, spark: SparkSession, topics: Topics, name: str, checkpoint: str, tasks: int = 2
    ) -> None:
        self.spark = spark
        self.topics = topics
        self.name = name
        self.checkpoint = checkpoint
        self.source = topics.create(f"{name}-in", tasks)
        self.target = topics.create(f"{name}-out")
        self.mode = "append"
        self.more = {"sinkId": name}

    def run(self, *, starting: str = "earliest", **options: str) -> None:
        query = self.writer(starting, **options).start()
        try:
            assert query.awaitTermination(RUN_TIMEOUT_S)
        finally:
            query.stop()

    def writer(self, starting: str = "earliest", **options: str) -> DataStreamWriter:
        rows = (
            self.spark.readStream.format("oncelog")
            .option("kafka.bootstrap.servers", self.topics.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", starting)
            .option("maxOffsetsPerTrigger", "4")
            .load()
            .select("key", "value")
        )
        if self.mode == "complete":
            rows = rows.groupBy("value").count().select("value")
        return (
            rows.writeStream.format("oncelog")
            .outputMode(self.mode)
            .option("kafka.bootstrap.servers", self.topics.bootstrap)
            .option("topic", self.target)
            .options(**{**self.more, **options})
            .options(**({"checkpointLocation": self.checkpoint} if self.checkpoint else {}))
            .trigger(availableNow=True)
        )

    @property
    def written(self) -> list[bytes]:
        return sorted(value or b"" for value in self.topics.values(self.target))

    def state(self, sink_id: str) -> tuple[int, dict[str, Any]]:
        async def read() -> tuple[int, dict[str, Any]]:
            async with Admin(self.topics.bootstrap) as admin:
                found = (await admin.list_group_offsets(sink_id))[SINK_PARTITION]
                return found.offset, json.loads(found.metadata)

        return asyncio.run(read())


@pytest.fixture
def copy(spark: SparkSession, topics: Topics, name: str, checkpoint: str) -> Copy:
    return Copy(spark, topics, name, checkpoint)


def rows(*numbers: int) -> list[bytes]:
    return sorted(b"%d" % number for number in numbers)


def test_every_row_of_every_batch_is_written_once(copy: Copy) -> None:
    copy.topics.append(copy.source, rows(*range(10)))
    copy.run()
    assert copy.written == rows(*range(10))
    offset, metadata = copy.state(copy.name)
    batches = [path for path in Path(copy.checkpoint, "commits").iterdir() if path.name.isdecimal()]
    assert offset == len(batches) > 2
    ended = metadata["sourceEnd"][copy.source]
    assert sum(ended.values()) == 10
    # Only one of the two tasks has a row.
    copy.topics.append(copy.source, [b"10"])
    copy.run()
    assert copy.written == rows(*range(11))
    # The result is the same without Spark's own record of the last batch.
    assert forget_last_commit(copy.checkpoint) == copy.state(copy.name)[0] - 1
    copy.topics.append(copy.source, [b"11"])
    copy.run()
    assert copy.written == rows(*range(12))


@pytest.mark.parametrize("point", ["task.produce.after", "task.hand-over.after"])
def test_a_task_that_dies_is_retried_with_another_id(
    copy: Copy, fail_points: FailPoints, point: str
) -> None:
    copy.topics.append(copy.source, rows(*range(4)))
    fail_points.kill(point)
    copy.run()
    assert fail_points.reached(point) is not None
    assert copy.written == rows(*range(4))
    # No open transaction is left to delay readers.
    ends = copy.topics.end_offsets(copy.target)
    assert ends == copy.topics.end_offsets(copy.target, committed=False)


def test_a_lost_checkpoint_is_detected_and_the_sink_is_adopted_without_duplicates(
    copy: Copy,
) -> None:
    copy.topics.append(copy.source, rows(*range(6)))
    copy.run()
    shutil.rmtree(copy.checkpoint)
    copy.topics.append(copy.source, rows(6, 7))
    _, before = copy.state(copy.name)
    with pytest.raises(StreamingQueryException) as failed:
        copy.run()
    for said in (f"sink {copy.name} belongs to query {before['queryId']}", "batch 2", "adopt"):
        assert said in str(failed.value)
    ended = json.dumps(before["sourceEnd"], separators=(",", ":"))
    assert f"the sources of this batch ended at {ended}" in str(failed.value)
    assert copy.written == rows(*range(6))
    shutil.rmtree(copy.checkpoint)
    copy.run(starting=f"sink:{copy.name}", onNewCheckpoint="adopt")
    assert copy.written == rows(*range(8))
    assert copy.state(copy.name)[1]["queryId"] != before["queryId"]


@pytest.mark.parametrize("behind", [1, 2])
def test_a_checkpoint_restored_from_a_copy_loses_no_row(copy: Copy, behind: int) -> None:
    """The sink has committed later batches than the copied checkpoint has. Spark plans the same
    batch numbers again, with more rows."""
    copy.topics.append(copy.source, rows(0, 1))
    copy.run()
    shutil.copytree(copy.checkpoint, f"{copy.checkpoint}-copy")
    for number in range(behind):
        copy.topics.append(copy.source, rows(2 + number))
        copy.run()
    shutil.rmtree(copy.checkpoint)
    shutil.copytree(f"{copy.checkpoint}-copy", copy.checkpoint)
    known = rows(*range(2 + behind))
    copy.topics.append(copy.source, rows(2 + behind))
    with pytest.raises(StreamingQueryException) as failed:
        copy.run()
    ended = json.dumps(copy.state(copy.name)[1]["sourceEnd"], separators=(",", ":"))
    for said in ("an older checkpoint was restored", ended, f"sink:{copy.name}"):
        assert said in str(failed.value)
    assert copy.written == known
    shutil.rmtree(copy.checkpoint)
    copy.run(starting=f"sink:{copy.name}", onNewCheckpoint="adopt")
    assert copy.written == rows(*range(3 + behind))


def test_the_default_sink_id_contains_the_query_id(
    spark: SparkSession, copy: Copy, checkpoint: str
) -> None:
    copy.topics.append(copy.source, [b"1"])
    copy.more = {}
    copy.run()
    query_id = json.loads(Path(checkpoint, "metadata").read_text())["id"]
    assert copy.state(f"spark-{query_id}")[1]["queryId"] == query_id
    # Without a readable checkpoint the option sinkId is required.
    spark.conf.set("spark.sql.streaming.checkpointLocation", f"{checkpoint}-2")
    try:
        copy.checkpoint = ""
        with pytest.raises(StreamingQueryException, match="option sinkId is needed"):
            copy.run()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_complete_mode_appends_the_whole_result_with_every_batch(copy: Copy) -> None:
    copy.mode = "complete"
    copy.topics.append(copy.source, [b"a", b"a"])
    copy.run()
    copy.topics.append(copy.source, [b"b"])
    copy.run()
    assert copy.written == [b"a", b"a", b"b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.transaction.timeout.ms": "900001"}, "transaction.max.timeout.ms=900000"),
        ({"topic": "no such topic"}, "no such topic"),
        ({"txnAppId": "a", "txnVersion": "1"}, "is for batch writes"),
        ({"sinkProtocol": "none"}, "sinkProtocol='none': is not one of auto, group, record"),
    ],
)
def test_the_error_of_the_query_says_what_is_wrong(
    copy: Copy, options: dict[str, str], said: str
) -> None:
    copy.topics.append(copy.source, [b"1"])
    with pytest.raises(StreamingQueryException) as failed:
        copy.run(**options)
    assert said in str(failed.value)
    assert copy.written == []
