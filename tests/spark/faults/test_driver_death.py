"""Drivers that die while they commit, and paused drivers that resume after their successor has
committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.driver import Driver
from tests.spark.faults.conftest import RECORD
from tests.spark.faults.running import append_purchases, audited, run
from tests.spark.pipeline import Pipeline
from tests.spark.processes import kill, orphan

BEFORE_DECISION = "commit.decide.before"
# The decided rows are visible, but Spark's commit log does not have the batch.
AFTER_DECISION = "commit.decide.after"


@pytest.fixture
def driver(has_java: None, tmp_path: Path) -> Iterator[Driver]:
    """A driver for this test alone. The test lets the driver run one batch without a fault before
    the batch with the fault."""
    with Driver(tmp_path / "driver") as running:
        yield running


@pytest.mark.parametrize("point", [BEFORE_DECISION, AFTER_DECISION])
def test_another_driver_continues_after_a_driver_died_in_its_commit(
    spark: SparkSession, pipeline: Pipeline, driver: Driver, point: str
) -> None:
    succeed(driver, pipeline, spark, point, atomic=True)


@pytest.mark.parametrize("point", ["commit.decide.after", "commit.done.after"])
def test_another_driver_continues_after_a_driver_died_in_a_commit_by_record(
    spark: SparkSession, pipeline: Pipeline, driver: Driver, point: str
) -> None:
    succeed(driver, pipeline._replace(options=RECORD), spark, point, atomic=False)


def succeed(
    driver: Driver, pipeline: Pipeline, spark: SparkSession, point: str, *, atomic: bool
) -> None:
    """Kill `driver` at `point` of its second batch. The driver of this process then continues."""
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert driver.run(pipeline) is None
        append_purchases(pipeline, 12)
        driver.fail_points.pause(point)
        driver.begin(pipeline)
        committing = driver.fail_points.wait_for(point)
        driver.kill()
        kill(committing)
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(14, atomic=atomic)


@pytest.mark.parametrize("point", [BEFORE_DECISION, AFTER_DECISION])
def test_the_late_commit_of_a_dead_driver_has_no_effect(
    spark: SparkSession, pipeline: Pipeline, driver: Driver, point: str
) -> None:
    """The driver's JVM dies. Its committing process is only paused, and resumes after the successor
    has committed."""
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert driver.run(pipeline) is None
        append_purchases(pipeline, 12)
        driver.fail_points.pause(point)
        driver.begin(pipeline)
        orphan(driver.fail_points.wait_for(point))
        driver.kill()
        assert run(pipeline, spark) is None
        driver.fail_points.resume(point)
        append_purchases(pipeline, 4)
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(18)


def test_the_newer_of_two_drivers_on_one_checkpoint_continues(
    spark: SparkSession, pipeline: Pipeline, driver: Driver
) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert driver.run(pipeline) is None
        append_purchases(pipeline, 12)
        driver.fail_points.pause(BEFORE_DECISION)
        driver.begin(pipeline)
        driver.fail_points.wait_for(BEFORE_DECISION)
        assert run(pipeline, spark) is None
        driver.fail_points.resume(BEFORE_DECISION)
        error = driver.outcome()
        assert error is not None
        append_purchases(pipeline, 4)
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(18)
