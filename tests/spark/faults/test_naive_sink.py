"""Faults in a sink that is not exactly-once. The audit that the other tests use finds the errors of
this sink."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.fail_points import FailPoints
from tests.spark.faults.naive_sink import NaiveSink
from tests.spark.faults.running import append_purchases, audited, run, to_its_end
from tests.spark.pipeline import Pipeline


def test_a_repeated_batch_is_written_twice(
    spark: SparkSession, pipeline: Pipeline, fail_points: FailPoints
) -> None:
    spark.dataSource.register(NaiveSink)
    naive = pipeline._replace(sink="naive")
    with audited(naive) as audit:
        append_purchases(naive, 2)
        assert run(naive, spark) is None
        append_purchases(naive, 6)
        fail_points.kill("commit.decide.before")
        assert run(naive, spark) is not None
        assert run(naive, spark) is None
        verdict = audit.verdict()
        assert len(verdict.duplicates) == 12
        assert not verdict.losses


def test_a_retried_task_writes_twice_and_its_batch_is_visible_in_part(
    spark: SparkSession, pipeline: Pipeline, fail_points: FailPoints
) -> None:
    spark.dataSource.register(NaiveSink)
    naive = pipeline._replace(sink="naive")
    with audited(naive) as audit:
        append_purchases(naive, 2)
        assert run(naive, spark) is None
        append_purchases(naive, 6)
        # One of the two tasks has written nothing when the reader sees the rows of the other task.
        fail_points.pause("task.produce.before")
        fail_points.kill("task.produce.after")
        query = naive.start(spark)
        fail_points.wait_for("task.produce.before")
        fail_points.wait_for("task.produce.after")
        assert audit.verdict().partial
        fail_points.resume("task.produce.before")
        assert to_its_end(query) is None
        assert audit.verdict().duplicates
