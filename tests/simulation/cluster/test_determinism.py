"""A seed gives the same events of a cluster in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.cluster.run import run_seed

ROOT = Path(__file__).parents[3]
# Short worlds.
SEEDS = (3, 12)


def traces(hash_seed: str) -> list[str]:
    """Return the traces of the seeds, run in a fresh interpreter."""
    program = (
        "from tests.simulation.cluster.run import run_seed\n"
        f"for seed in {SEEDS}: print(f'{{run_seed(seed).trace:012x}}')"
    )
    path = os.pathsep.join(str(ROOT / folder) for folder in (".", "protocol", "server", "client"))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.split()


def test_the_same_seed_is_the_same_trace_in_another_process() -> None:
    """The hashes of strings differ between the processes."""
    here = [f"{run_seed(seed).trace:012x}" for seed in SEEDS]
    assert traces("1") == here
    assert len(set(here)) == len(SEEDS)
