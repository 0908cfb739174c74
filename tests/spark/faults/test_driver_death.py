"""Drivers that die while they commit, and paused drivers that resume after their successor has
committed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until
from tests.spark.driver import Driver
from tests.spark.faults.conftest import LIMIT, RECORD
from tests.spark.faults.running import Audit, append_purchases, audited, run
from tests.spark.pipeline import Pipeline
from tests.spark.processes import ancestors, is_gone, is_jvm, kill

BEFORE_DECISION = "commit.decide.before"
# The decided rows are visible, but Spark's commit log does not have the batch.
AFTER_DECISION = "commit.decide.after"


class Death(NamedTuple):
    """A batch during which the driver dies: the fail point, and the options of the sink. If
    `survives` is True, the committing process is only paused and outlives the driver's JVM."""

    point: str
    options: Mapping[str, str] = {}
    survives: bool = False

    def __str__(self) -> str:
        words = [self.point, *self.options.values(), "paused" if self.survives else "dead"]
        return "-".join(words)


class Halted(NamedTuple):
    """A pipeline of the dead driver. It has 14 purchases, some of them in its last batch.
    `committing`: the process that reached the fail point."""

    pipeline: Pipeline
    audit: Audit
    committing: int


DEATHS = (
    Death(BEFORE_DECISION),
    Death(AFTER_DECISION),
    Death(AFTER_DECISION, RECORD),
    Death("commit.done.after", RECORD),
)
LATE_COMMITS = (
    Death(BEFORE_DECISION, survives=True),
    Death(AFTER_DECISION, survives=True),
)


@pytest.fixture(scope="module")
def driver(has_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver for this module. `halted` kills it, so tests with a live driver come first. Each
    pipeline runs one batch without a fault before the batch with the fault."""
    with Driver(tmp_path_factory.mktemp("driver")) as running:
        yield running


@pytest.fixture(scope="module")
def halted(
    driver: Driver, broker: Oncelog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Halted]]:
    """The pipelines of a driver that died once, while all of them committed. A driver takes 13 s of
    processor time for its start and its first batch, so the tests share one."""
    found: dict[str, Halted] = {}
    with ExitStack() as stack:
        for death in (*DEATHS, *LATE_COMMITS):
            checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
            name = f"dies-{death}-{uuid4().hex[:8]}"
            pipeline = Pipeline(broker.address, name, checkpoint, death.options, LIMIT)
            audit = stack.enter_context(audited(pipeline))
            append_purchases(pipeline, 2)
            assert driver.run(pipeline) is None
            append_purchases(pipeline, 12)
            driver.fail_points.pause(death.point)
            driver.begin_beside(pipeline)
            committing = driver.fail_points.detach(death.point)
            stack.callback(kill, committing)
            found[str(death)] = Halted(pipeline, audit, committing)
        above = {pid for late in LATE_COMMITS for pid in ancestors(found[str(late)].committing)}
        # Kill the daemons before the JVM, as `orphan` does.
        for pid in sorted(above, key=is_jvm):
            kill(pid)
        driver.kill()
        for death in DEATHS:
            kill(found[str(death)].committing)
        yield found


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
    driver.fail_points.clear()


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_another_driver_continues_after_a_driver_died_in_its_commit(
    spark: SparkSession, halted: dict[str, Halted], death: Death
) -> None:
    """The driver dies in a commit by group or by record. The driver of this process then
    continues."""
    pipeline, audit, _ = halted[str(death)]
    assert run(pipeline, spark) is None
    audit.assert_exactly_once(14, atomic=death.options != RECORD)


@pytest.mark.parametrize("death", LATE_COMMITS, ids=str)
def test_the_late_commit_of_a_dead_driver_has_no_effect(
    spark: SparkSession, halted: dict[str, Halted], death: Death
) -> None:
    """The driver's JVM dies. Its committing process is only paused, and resumes after the successor
    has committed."""
    pipeline, audit, committing = halted[str(death)]
    assert run(pipeline, spark) is None
    os.kill(committing, signal.SIGCONT)  # raises an error if the process has died
    wait_until(lambda: is_gone(committing), "the late commit has ended")
    append_purchases(pipeline, 4)
    assert run(pipeline, spark) is None
    audit.assert_exactly_once(18)
