"""`python -m tests.simulation --seed 7`, or `--seeds 1000 --processes 2`. The exit code is 1 if a
seed failed, or if a long run never met one of the states in `sometimes.py`. `--cluster` simulates
clusters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from multiprocessing import get_context

import click

from tests.simulation.kinds import CLUSTER, LONE, Kind
from tests.simulation.report import Figures, failure_lines, one_line
from tests.simulation.run import Verdict
from tests.simulation.shrinking import shrink
from tests.simulation.sometimes import ENOUGH_SEEDS, never_met

# After this many failed seeds the run stops.
ENOUGH_FAILURES = 5
SHOWN_EVERY = 200


@click.command()
@click.option("--seed", type=int, help="Run one seed. If it fails, print its faults and events.")
@click.option("--seeds", type=int, default=0, help="Number of seeds, from --first on.")
@click.option("--first", type=int, default=0)
@click.option("--processes", type=int, default=1)
@click.option("--without", default="", help="With --seed: the numbers of faults to leave out.")
@click.option("--shrink/--no-shrink", "shrinks", default=True)
@click.option("--cluster", is_flag=True, help="Simulate clusters of several brokers.")
@click.option("--quiet", is_flag=True, help="Print no figures at the end.")
def main(
    seed: int | None,
    seeds: int,
    first: int,
    processes: int,
    without: str,
    shrinks: bool,
    cluster: bool,
    quiet: bool,
) -> None:
    kind = CLUSTER if cluster else LONE
    if seed is not None:
        left_out = [int(text) for text in without.split(",") if text]
        sys.exit(_one(kind, seed, left_out, shrinks))
    sys.exit(_many(kind, range(first, first + (seeds or 100)), processes, shrinks, quiet))


def _one(kind: Kind, seed: int, without: list[int], shrinks: bool) -> int:
    verdict = kind.run_seed(seed, without=without)
    click.echo(one_line(verdict))
    if verdict.failed:
        _explain(kind, verdict, without, shrinks and not without)
    return int(verdict.failed)


def _explain(kind: Kind, verdict: Verdict, without: list[int], shrinks: bool) -> None:
    """Print the failure of a seed that runs without the faults `without`. With `shrinks`, find a
    shorter list of faults that still fails, and print its failure."""
    if shrinks:
        without = shrink(verdict, run=kind.run_seed, faults_of=kind.faults_of)
    if without:
        verdict = kind.run_seed(verdict.seed, without=without)
    click.echo("\n".join(failure_lines(verdict, without, kind.option)))


def _many(kind: Kind, seeds: Iterable[int], processes: int, shrinks: bool, quiet: bool) -> int:
    figures = Figures()
    failures = 0
    for verdict in _verdicts(kind, seeds, processes):
        figures.add(verdict)
        if verdict.failed:
            failures += 1
            _explain(kind, verdict, [], shrinks)
            if failures >= ENOUGH_FAILURES:
                break
        if figures.seeds % SHOWN_EVERY == 0:
            click.echo(f"{figures.seeds} seeds, {failures} failed", err=True)
    if not quiet:
        click.echo("\n".join(figures.lines()))
    missing = never_met(figures.met, kind.states) if figures.seeds >= ENOUGH_SEEDS else []
    for name in missing:
        click.echo(f"NEVER MET: {name}")
    return int(failures > 0 or bool(missing))


def _verdicts(kind: Kind, seeds: Iterable[int], processes: int) -> Iterator[Verdict]:
    if processes == 1:
        yield from map(kind.run_seed, seeds)
        return
    # Each process is a fresh interpreter, without state of this process.
    with get_context("spawn").Pool(processes, maxtasksperchild=500) as pool:
        yield from pool.imap_unordered(kind.run_seed, seeds, chunksize=4)


if __name__ == "__main__":
    main()
