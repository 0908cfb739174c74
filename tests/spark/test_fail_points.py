"""Fail points: who comes to one dies or waits there, everybody else passes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spark.fail_points import FailPoints, NotReached

PASSING = "from oncelog_client.spark.fail_points import fail_at; fail_at('commit.decide.before')"
NAME = "commit.decide.before"


def passer(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PASSING], env={**os.environ, **environment})


def test_without_the_variable_nothing_happens() -> None:
    assert passer({}).wait(20) == 0


def test_a_file_kills_one_process_and_says_which(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.kill("commit.decide.after")
    assert passer(points.environment).wait(20) == 0
    points.kill(NAME)
    assert points.reached(NAME) is None
    killed = passer(points.environment)
    assert killed.wait(20) == 137
    assert points.reached(NAME) == killed.pid
    assert passer(points.environment).wait(20) == 0


def test_a_paused_process_goes_on_when_it_is_woken(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.pause(NAME)
    with pytest.raises(NotReached):
        points.wait_for(NAME, 0)
    paused = passer(points.environment)
    assert points.wait_for(NAME) == paused.pid
    with pytest.raises(subprocess.TimeoutExpired):
        paused.wait(0.2)
    points.resume(NAME)
    assert paused.wait(20) == 0


def test_clearing_leaves_nobody_paused(tmp_path: Path) -> None:
    points = FailPoints(tmp_path / "points")
    points.pause(NAME)
    paused = passer(points.environment)
    points.wait_for(NAME)
    points.clear()
    assert paused.wait(20) == 0
    assert points.reached(NAME) is None
