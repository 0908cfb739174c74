"""One seed is one course of events, in every process and on every Python that is here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.run import run_seed

ROOT = Path(__file__).parents[2]
SEEDS = (3, 12, 30, 37)
# Others with the broker's requirements may be named, by `:`.
PYTHONS = [sys.executable, *filter(None, os.environ.get("ONCELOG_OTHER_PYTHONS", "").split(":"))]


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


@pytest.mark.parametrize("python", PYTHONS)
def test_the_same_seed_is_the_same_trace_on_every_python(python: str) -> None:
    here = [f"{run_seed(seed).trace:012x}" for seed in SEEDS]
    assert traces(python, "2") == here


def test_another_seed_is_another_trace() -> None:
    assert len({run_seed(seed).trace for seed in SEEDS}) == len(SEEDS)
