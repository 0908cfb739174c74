"""`make explore WORLD=replication`: small replicated clusters, with all orders of their steps."""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import click

from tests.exploration.replication.configurations import LARGE, SMALL, Configuration
from tests.exploration.replication.search import Search, Violation

Outcome = tuple[int, int, int, bool, Counter[str], float]


def explore(configuration: Configuration) -> Outcome | str:
    """Return the counts of a search and its seconds of processor time, or the violation."""
    begun = time.process_time()
    try:
        search: Search = configuration.search()
    except Violation as violation:
        return str(violation)
    seconds = time.process_time() - begun
    return (
        search.worlds,
        search.steps_taken,
        search.depth_reached,
        search.is_whole,
        search.by_step,
        seconds,
    )


@click.command(help=__doc__)
@click.option("--only", default="", help="Names of searches, separated by commas or spaces.")
@click.option("--jobs", default=2, show_default=True)
def main(only: str, jobs: int) -> None:
    wanted = set(only.replace(",", " ").split())
    searches = [found for found in (*SMALL, *LARGE) if not wanted or found.name in wanted]
    total, steps = 0, Counter[str]()
    with ProcessPoolExecutor(jobs) as pool:
        for configuration, outcome in zip(searches, pool.map(explore, searches), strict=True):
            if isinstance(outcome, str):
                click.echo(f"{configuration}\n    {outcome}")
                sys.exit(1)
            worlds, taken, depth, is_whole, by_step, seconds = outcome
            total += worlds
            steps.update(by_step)
            whole = "all" if is_whole else "the first"
            click.echo(
                f"{configuration}: {whole} {worlds:,} worlds, {taken:,} steps, the farthest"
                f" {depth} steps away, {seconds:.0f} s"
            )
    click.echo(f"{total:,} worlds, no violation")
    for name, count in steps.most_common():
        click.echo(f"    {name}: {count:,}")


if __name__ == "__main__":
    main()
