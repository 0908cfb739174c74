"""A copy loop over SASL_SSL with exactly the rights that it needs. Drivers and Python workers are
killed, no row is lost or duplicated, and the password gets into no file.

By default they are killed at a few points. With ONCELOG_SPARK_KILLS=all, workers are killed before
and after every step, and drivers at every step of a commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step
from tests.spark.driver import Driver
from tests.spark.faults.conftest import LIMIT, secured
from tests.spark.faults.line import Line
from tests.spark.faults.running import append_purchases, audited, run
from tests.spark.guarded import GuardedOncelog, password_of
from tests.spark.pipeline import Pipeline
from tests.spark.processes import kill

_ALL: Final = os.environ.get("ONCELOG_SPARK_KILLS") == "all"
_SIDES: Final = ("before", "after")
_GROUP: Final = [step for step in STEPS if CommitKind.GROUP in STEPS[step]]
_STEPS: Final = _GROUP if _ALL else [Step.TASK_PRODUCE, Step.COMMIT_DECIDE]
_COMMITS: Final = [step for step in _GROUP if step.startswith("commit.")]
_DEATHS: Final = (
    [f"{step}.{side}" for step in _COMMITS if step != Step.COMMIT_LOSERS for side in _SIDES]
    if _ALL
    else ["commit.decide.after"]
)


@pytest.mark.parametrize("lines", ["secured"], indirect=True)
@pytest.mark.parametrize("step", _STEPS)
def test_a_killed_worker_loses_and_doubles_no_row(line: Line, step: Step) -> None:
    line.kill_at(step, "before")
    line.kill_at(step, "after")
    line.go_on()


@pytest.fixture
def recorded(tmp_path: Path, has_java: None) -> Iterator[Driver]:
    """A driver for this test alone. Spark writes its events to a file."""
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    with Driver(tmp_path / "driver", settings=settings) as running:
        yield running


@pytest.mark.parametrize("point", _DEATHS)
def test_a_killed_driver_loses_and_doubles_no_row_and_leaves_no_password(
    spark: SparkSession,
    guarded: GuardedOncelog,
    recorded: Driver,
    name: str,
    tmp_path: Path,
    point: str,
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    pipeline = secured(Pipeline(guarded.address, name, checkpoint, {}, LIMIT), guarded)
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert recorded.run(pipeline) is None
        append_purchases(pipeline, 12)
        recorded.fail_points.pause(point)
        recorded.begin(pipeline)
        committing = recorded.fail_points.wait_for(point)
        recorded.kill()
        kill(committing)
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(14, atomic=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = {path: path.read_bytes().decode(errors="replace") for path in files}
    for place in ("events", "checkpoint"):
        shown = [text for path, text in texts.items() if path.is_relative_to(tmp_path / place)]
        assert any(name in text for text in shown), f"nothing was searched in {place}"
    assert [path for path, text in texts.items() if password_of(name) in text] == []
