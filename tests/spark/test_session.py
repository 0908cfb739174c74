"""The session that other tests share runs jobs, survives killed workers and failed jobs, and passes
the folder of the fail points to its workers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.spark.session import Spark


def test_a_job_runs_in_python_workers(spark: SparkSession) -> None:
    assert spark.range(10).rdd.map(lambda row: row.id * 2).sum() == 90


def test_a_task_is_retried_after_its_worker_dies(spark: SparkSession) -> None:
    def die_once(rows: Iterable[object]) -> Iterator[int]:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            os._exit(137)
        yield context.attemptNumber()

    assert spark.sparkContext.range(2, numSlices=2).mapPartitions(die_once).collect() == [1, 1]


def test_a_job_that_fails_leaves_the_session_usable(spark: SparkSession) -> None:
    def fail(row: object) -> int:
        raise ValueError(row)

    with pytest.raises(Exception, match="ValueError"):
        spark.range(1).rdd.map(fail).collect()
    assert spark.range(3).count() == 3


def test_workers_know_where_fail_points_are_set(spark: SparkSession, spark_driver: Spark) -> None:
    found = spark.range(1).rdd.map(lambda row: os.environ["ONCELOG_SPARK_FAIL_DIR"]).collect()
    assert found == [str(spark_driver.fail_points.directory)]
