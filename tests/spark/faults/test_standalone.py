"""Tasks on two hosts: second copies of slow tasks, lost executors, and superfluous attempts that
still write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.driver import Driver
from tests.spark.faults.running import append_purchases, audited
from tests.spark.pipeline import Pipeline
from tests.spark.processes import orphan
from tests.spark.standalone import Standalone, executors

# When one of two tasks is done, Spark starts a copy of the other task. Spark does not stop the
# slower copy.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.python.task.killTimeout": "10min",
}

FIRST, WRITING, WRITTEN = "task.init.before", "task.produce.before", "task.produce.after"


@pytest.fixture(scope="module")
def cluster(has_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(cluster: Standalone) -> Iterator[Driver]:
    settings = {**executors(), **SPECULATION}
    with Driver(cluster.directory / "driver", cluster.master, settings) as running:
        yield running


@pytest.fixture(autouse=True)
def no_process_paused(cluster: Standalone, driver: Driver) -> Iterator[None]:
    """At the end of a test, resume all processes and wait for all tasks, so that a slower
    copy of a task does not reach a fail point of the next test."""
    yield
    cluster.fail_points.clear()
    driver.fail_points.clear()
    driver.wait_for_tasks(0)


def test_executors_on_two_hosts_write_over_tcp(driver: Driver, pipeline: Pipeline) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 12)
        assert driver.run(pipeline) is None
        audit.assert_exactly_once(12)


@pytest.mark.parametrize("point", [FIRST, WRITING])
def test_the_slower_copy_of_a_task_resumes_after_the_commit_of_its_batch(
    cluster: Standalone, driver: Driver, pipeline: Pipeline, point: str
) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 12)
        cluster.fail_points.pause(point)
        assert driver.run(pipeline) is None
        loser = cluster.fail_points.wait_for(point)
        # Spark may have copied any task. Wait until the slower copy is the only task, because no
        # other task may reach the next fail point.
        driver.wait_for_tasks(1)
        # The slower copy writes its rows before it dies at this fail point.
        cluster.fail_points.kill(WRITTEN)
        cluster.fail_points.resume(point)
        assert cluster.fail_points.wait_for(WRITTEN) == loser
        append_purchases(pipeline, 4)
        assert driver.run(pipeline) is None
        audit.assert_exactly_once(16)


@pytest.mark.parametrize("point", [WRITING, WRITTEN])
def test_a_lost_executor_is_replaced_and_its_late_rows_stay_invisible(
    cluster: Standalone, driver: Driver, pipeline: Pipeline, point: str
) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 12)
        cluster.fail_points.pause(point)
        driver.begin(pipeline)
        orphan(cluster.fail_points.wait_for(point))
        assert driver.outcome() is None
        cluster.fail_points.resume(point)
        append_purchases(pipeline, 4)
        assert driver.run(pipeline) is None
        audit.assert_exactly_once(16)
