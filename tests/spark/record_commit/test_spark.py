"""Source and sink on Apache Kafka, with a real Spark: batches, a second attempt of a task, a driver
that dies between a decision and its end, and a repeated batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.harness.kafka.kafka import Kafka
from tests.spark.fail_points import FailPoints
from tests.spark.pipeline import Pipeline
from tests.spark.session import Spark
from tests.spark.topics import Row, Topics

RUN_TIMEOUT_S = 90


def rows(pipeline: Pipeline) -> dict[str, list[bytes]]:
    """Return the rows that have become visible, sorted."""
    topics = Topics(pipeline.bootstrap)
    return {
        topic: sorted(value or b"" for value in topics.decided_values(topic))
        for topic in (pipeline.invoices, pipeline.shipments)
    }


def purchases(pipeline: Pipeline, count: int) -> None:
    """Append the same number of purchases to each partition."""
    values = [Row(b"%d" % number, partition=number % 2) for number in range(2 * count)]
    Topics(pipeline.bootstrap).append(pipeline.purchases, values)


def expected(count: int) -> list[bytes]:
    return sorted(b"%d:%d" % (partition, offset) for partition in (0, 1) for offset in range(count))


def test_every_row_is_visible_once_on_apache_kafka(
    kafka: Kafka,
    spark: SparkSession,
    spark_driver: Spark,
    fail_points: FailPoints,
    name: str,
    checkpoint: str,
) -> None:
    pipeline = Pipeline(kafka.address, name, checkpoint)
    pipeline.create_topics()

    def run() -> None:
        assert pipeline.start(spark).awaitTermination(RUN_TIMEOUT_S)

    # No fault.
    purchases(pipeline, 5)
    run()
    # An attempt dies with its transaction open, and another attempt writes its rows.
    purchases(pipeline, 5)
    fail_points.kill("task.hand-over.after")
    run()
    assert fail_points.reached("task.hand-over.after")
    # The driver dies after the decision. The next run rolls the batch forward.
    purchases(pipeline, 5)
    fail_points.kill("commit.decide.after")
    with pytest.raises(StreamingQueryException):
        run()
    purchases(pipeline, 5)
    run()
    # Spark's record of the last commit is lost, so Spark repeats the batch.
    newest = max(Path(checkpoint, "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()
    purchases(pipeline, 5)
    run()
    assert rows(pipeline) == {
        pipeline.invoices: expected(25),
        pipeline.shipments: expected(25),
    }
    spark_driver.wait_for_log(f"^sink {name}: the broker has no two-phase commit")
