"""The first process that reaches a fail point dies or pauses there. Later processes pass it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.harness.waiting import wait_until
from tests.spark.fail_points import FailPoints, NotReached
from tests.spark.processes import is_gone, is_stopped

NAME = "commit.decide.before"
PASSING = f"from oncelog_client.spark.fail_points import fail_at; fail_at({NAME!r})"
# The process stops 0.3 s after it reaches the point.
PASSING_LATE = f"""
import signal, time
stop = signal.pthread_kill
signal.pthread_kill = lambda *stopping: (time.sleep(0.3), stop(*stopping))
{PASSING}
"""

# A process with a group of its own, as Spark's daemon, and a child that reaches the point.
PARENT = f"""
import os, subprocess, sys
os.setpgid(0, 0)
subprocess.run([sys.executable, "-c", {PASSING!r}])
"""


def passer(environment: Mapping[str, str], program: str = PASSING) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **environment})


def test_without_the_variable_nothing_happens() -> None:
    assert passer({}).wait(60) == 0


def test_a_fail_point_kills_one_process_and_records_its_id(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.kill("commit.decide.after")
    assert passer(points.environment).wait(60) == 0
    points.kill(NAME)
    assert points.reached(NAME) is None
    killed = passer(points.environment)
    assert killed.wait(60) == 137
    assert points.reached(NAME) == killed.pid
    assert passer(points.environment).wait(60) == 0


def test_a_paused_process_continues_after_resume(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.pause(NAME)
    with pytest.raises(NotReached):
        points.wait_for(NAME, 0)
    paused = passer(points.environment)
    assert points.wait_for(NAME) == paused.pid
    with pytest.raises(subprocess.TimeoutExpired):
        paused.wait(0.2)
    points.resume(NAME)
    assert paused.wait(60) == 0
    points.clear()


def test_a_paused_process_outlives_its_parent(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.pause(NAME)
    parent = passer(points.environment, PARENT)
    paused = points.wait_for(NAME)
    assert paused != parent.pid
    parent.kill()
    parent.wait()
    assert is_stopped(paused)
    points.resume(NAME)
    wait_until(lambda: is_gone(paused), "the resumed process has ended")


@pytest.mark.parametrize("wakes", [lambda points: points.resume(NAME), FailPoints.clear])
def test_a_process_that_has_not_stopped_yet_is_resumed_after_its_stop(
    tmp_path: Path, wakes: Callable[[FailPoints], None]
) -> None:
    points = FailPoints(tmp_path / "points")
    points.pause(NAME)
    paused = passer(points.environment, PASSING_LATE)
    while points.reached(NAME) is None:
        assert paused.poll() is None
    wakes(points)
    assert paused.wait(60) == 0


def test_clearing_leaves_no_process_paused(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.pause(NAME)
    paused = passer(points.environment)
    points.wait_for(NAME)
    points.clear()
    assert paused.wait(60) == 0
    assert points.reached(NAME) is None
