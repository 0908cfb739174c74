"""A seed gives the same events in every process and on every supported Python."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from oncelog_client.io import clock
from oncelog_client.io import randomness as randomness
from tests.harness.pythons import OTHERS, with_the_broker_s_requirements
from tests.simulation.run import run_seed

ROOT = Path(__file__).parents[2]
# Short worlds that together have 22 kinds of faults.
SEEDS = (13, 30, 33, 38)
# The simulated wall clock may be months away from the real one. A difference below this limit shows
# that a client reads the real one.
REAL_MS = 3_600_000
# The limit for the monotonic clock. It begins at 0 in a world, and at the start of the computer
# otherwise, which may be only an hour ago.
CLOSE_MS = 60_000


@cache
def here() -> list[str]:
    """Return the traces of the seeds, run in this process."""
    return [f"{run_seed(seed).trace:012x}" for seed in SEEDS]


def traces(python: str, hash_seed: str) -> list[str]:
    """Return the traces of the seeds, run in a fresh interpreter."""
    program = (
        "from tests.simulation.run import run_seed\n"
        f"for seed in {SEEDS}: print(f'{{run_seed(seed).trace:012x}}')"
    )
    path = os.pathsep.join(str(ROOT / folder) for folder in (".", "protocol", "server", "client"))
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
    """The hashes of strings differ between the processes."""
    assert traces(sys.executable, "0") == traces(sys.executable, "1") == here()


@pytest.mark.parametrize("version", OTHERS)
def test_the_same_seed_is_the_same_trace_on_every_python(version: str, tmp_path: Path) -> None:
    python = with_the_broker_s_requirements(version, tmp_path / "python")
    assert traces(python, "2") == here()


def test_clients_in_other_threads_change_nothing() -> None:
    """Spark's tests, for example, leave clients in other threads. These clients draw random numbers
    and read the clock."""
    ended = threading.Event()

    def go_on() -> None:
        # Without a pause this thread would take half of the processor time of the worlds.
        while not ended.wait(0.001):
            randomness.fraction()
            assert abs(clock.wall_ms() - time.time() * 1000) < REAL_MS
            assert abs(clock.monotonic_ms() - time.monotonic() * 1000) < CLOSE_MS

    expected = here()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(go_on)
        try:
            assert [f"{run_seed(seed).trace:012x}" for seed in SEEDS] == expected
        finally:
            ended.set()
        other.result()


def test_another_seed_is_another_trace() -> None:
    assert len(set(here())) == len(SEEDS)
