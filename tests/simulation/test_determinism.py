"""One seed is one course of events, in every process and on every Python that is here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.run import run_seed

ROOT = Path(__file__).parents[2]
SEEDS = (3, 12, 30, 37)


def traces(python: str, hash_seed: str) -> list[str]:
    """Of a fresh interpreter."""
    program = (
        "from tests.simulation.run import run_seed\n"
        f"for seed in {SEEDS}: print(f'{{run_seed(seed).trace:012x}}')"
    )
    path = os.pathsep.join(str(ROOT / one) for one in (".", "protocol", "server", "client"))
    ended = subprocess.run(
        [python, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.split()


def test_the_same_seed_is_the_same_trace_in_other_processes() -> None:
    here = [f"{run_seed(seed).trace:012x}" for seed in SEEDS]
    assert traces(sys.executable, "0") == traces(sys.executable, "1") == here


@pytest.mark.skipif("ONCELOG_OTHER_PYTHONS" not in os.environ, reason="no other interpreter named")
def test_the_same_seed_is_the_same_trace_on_other_pythons() -> None:
    """ONCELOG_OTHER_PYTHONS: interpreters with the broker's requirements, by `:`."""
    here = [f"{run_seed(seed).trace:012x}" for seed in SEEDS]
    for python in re.split(":", os.environ["ONCELOG_OTHER_PYTHONS"]):
        assert traces(python, "2") == here, python


def test_another_seed_is_another_trace() -> None:
    assert len({run_seed(seed).trace for seed in SEEDS}) == len(SEEDS)
