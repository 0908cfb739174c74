"""The functions of the broker that take the most time under a load.

    python -m benchmarks.profile_broker small txn16 tls16k

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
from benchmarks.loads import LOADS, setup_of
from benchmarks.musts import PINNED
from benchmarks.run import places
from benchmarks.setups import Setup
from benchmarks.targets import ONCELOG, SETTINGS, Target
from benchmarks.tls_brokers import TlsOncelog, tls_files
from tests.harness.broker import Oncelog


class Profiled(Oncelog):
    """A broker under cProfile. It writes the profile when it stops."""

    @property
    def figures(self) -> Path:
        return self.directory / "profile"

    def command(self) -> list[str]:
        python, *rest = super().command()
        return [python, "-m", "cProfile", "-o", str(self.figures), *rest]


class ProfiledTls(Profiled, TlsOncelog):
    """A broker with TLS under cProfile."""


def new_broker(setup: Setup, folder: Path) -> Profiled:
    """Return a broker of a setup under cProfile. It is not started."""
    settings = {**SETTINGS, **setup.settings}
    if setup.has_tls:
        return ProfiledTls(folder / ONCELOG, settings, None, tls_files(folder))
    return Profiled(folder / ONCELOG, settings)


def profile(load: str, seconds: float, sort: str, lines: int) -> None:
    """Print the functions in which the broker spends most time under this load."""
    (place,) = places([PINNED])
    with tempfile.TemporaryDirectory(prefix="oncelog-profile-") as name:
        folder = Path(name)
        setup = setup_of(load)
        broker = new_broker(setup, folder)
        with machine.on_cores(place.broker), broker:
            setup.complete(broker.address)
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
