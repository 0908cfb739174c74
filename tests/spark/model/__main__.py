"""`make explore`: check a model of the sink in every order of events, in large configurations."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

import click

from .configurations import LARGE, SMALL, Configuration, search
from .search import Search
from .world import World


def look(configuration: Configuration, most_states: int) -> Search[World]:
    found = search(configuration, most_states)
    # A function of the search cannot be pickled for another process.
    found.successors, found.check = _nothing, _nothing
    return found


def _nothing(world: World) -> tuple[()]:
    return ()


@click.command(help=__doc__)
@click.option(
    "--states",
    default=1_000_000,
    show_default=True,
    help="Maximum number of states per configuration.",
)
@click.option("--jobs", default=2, show_default=True)
@click.option("--small", is_flag=True, help="Search the small configurations of each test run.")
@click.option(
    "--only", default="", help="Search only the configurations with this text in their names."
)
def main(states: int, jobs: int, small: bool, only: str) -> None:
    total = 0
    wanted = [world for world in (SMALL if small else LARGE) if only in str(world)]
    with ProcessPoolExecutor(jobs) as pool:
        for world, found in zip(
            wanted, pool.map(look, wanted, [states] * len(wanted)), strict=True
        ):
            total += found.states
            click.echo(f"{world!s:60} {found}")
            if found.violation is not None:
                sys.exit(1)
    click.echo(f"{total:,} states, no violation")


if __name__ == "__main__":
    main()
