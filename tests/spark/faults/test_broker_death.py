"""The broker is killed while tasks write, and at every step of a decision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from oncelog.testing.broker import QUICK
from tests.harness.broker import Oncelog
from tests.spark.fail_points import FailPoints
from tests.spark.faults.conftest import LIMIT
from tests.spark.faults.running import append_purchases, audited, run, to_its_end
from tests.spark.pipeline import Pipeline

# Steps of the common decision: PREPARE for all members, then a marker for each partition.
POINTS = (
    "before-prepare",
    "after-prepare",
    "before-marker",
    "after-marker:3",
    "after-complete",
    "answer-end-txn",
)
WRITING = "task.produce.after"
DECIDING = "commit.decide.before"


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """A broker that tests kill. Each test leaves it running."""
    with Oncelog(tmp_path_factory.mktemp("mortal"), QUICK) as running:
        yield running


@pytest.fixture
def pipeline(mortal: Oncelog, name: str, checkpoint: str) -> Pipeline:
    return Pipeline(mortal.address, name, checkpoint, source_options=LIMIT)


@pytest.mark.parametrize("point", POINTS)
def test_a_decision_during_which_the_broker_dies_takes_effect_once(
    spark: SparkSession,
    mortal: Oncelog,
    pipeline: Pipeline,
    fail_points: FailPoints,
    point: str,
) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert run(pipeline, spark) is None
        append_purchases(pipeline, 12)
        fail_points.pause(DECIDING)
        query = pipeline.start(spark)
        fail_points.wait_for(DECIDING)
        # The fail point kills the broker at its first decision after this restart, which is the
        # decision of the batch.
        mortal.kill()
        mortal.fail_at(point)
        mortal.start()
        fail_points.resume(DECIDING)
        mortal.wait_for_death(60)
        mortal.fail_at(None)
        mortal.start()
        assert to_its_end(query) is None
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(14)


def test_rows_are_written_once_if_the_broker_dies_between_writes_of_a_task(
    spark: SparkSession, mortal: Oncelog, pipeline: Pipeline, fail_points: FailPoints
) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 12)
        fail_points.pause(WRITING)
        query = pipeline.start(spark)
        fail_points.wait_for(WRITING)
        mortal.kill()
        mortal.start()
        fail_points.resume(WRITING)
        assert to_its_end(query) is None
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(12)
