"""The functions of the broker that take the most time under a load.

    python -m benchmarks.profile_broker small txn16

cProfile adds a cost to each call and does not look inside C functions. Trust the order, not the
sums.
"""

from __future__ import annotations

import argparse
import pstats
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import FULL, Bench
from benchmarks.loads import LOADS
from benchmarks.musts import PINNED
from benchmarks.run import places
from benchmarks.targets import ONCELOG, SETTINGS, Target
from tests.harness.broker import Oncelog


class Profiled(Oncelog):
    """A broker under cProfile. It writes the profile when it stops."""

    @property
    def figures(self) -> Path:
        return self.directory / "profile"

    def command(self) -> list[str]:
        python, *rest = super().command()
        return [python, "-m", "cProfile", "-o", str(self.figures), *rest]


def profile(load: str, seconds: float, sort: str, lines: int) -> None:
    """Print the functions in which the broker spends most time under this load."""
    (place,) = places([PINNED])
    with tempfile.TemporaryDirectory(prefix="oncelog-profile-") as name:
        folder = Path(name)
        broker = Profiled(folder / ONCELOG, SETTINGS)
        with machine.on_cores(place.broker), broker:
            bench = Bench(Target(ONCELOG, broker), replace(FULL, seconds=seconds), folder)
            with LOADS[load](bench) as run:
                figures = run(place.load)
        print(f"\n{load}: " + ", ".join(f"{key} {value:,.0f}" for key, value in figures.items()))
        stats = pstats.Stats(str(broker.figures), stream=sys.stdout)
        stats.strip_dirs().sort_stats(sort).print_stats(lines)


def main() -> None:
    """Print one profile for each named load."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_broker")
    parser.add_argument("loads", nargs="+", choices=sorted(LOADS))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--sort", choices=("tottime", "cumtime", "ncalls"), default="tottime")
    parser.add_argument("--lines", type=int, default=30)
    args = parser.parse_args()
    for load in args.loads:
        profile(load, args.seconds, args.sort, args.lines)


if __name__ == "__main__":
    main()
