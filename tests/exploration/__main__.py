"""`make explore`: two producers, two partitions and one coordinator, with all orders of their
steps."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import click

from tests.exploration.exploring import Exploration
from tests.exploration.starts import BEFORE_890, world
from tests.exploration.world_model import Budget


class Corner(NamedTuple):
    """One exploration. `version`: the transaction version, 2 for KIP-890. `same_id`: the two
    producers have one transactional id. `start`: the name of the first state in
    `starts.world`. `depth`: the maximum number of steps."""

    version: int
    same_id: bool
    start: str
    depth: int

    @property
    def budget(self) -> Budget:
        return BEFORE_890 if self.version == 1 else Budget()

    def __str__(self) -> str:
        ids = "one id" if self.same_id else "two ids"
        return f"V{self.version}, {ids}, {self.start}, {self.depth} steps"


CORNERS = [
    *(Corner(version, True, start, 12) for version in (1, 2) for start in ("fresh", "ready")),
    *(Corner(version, True, "open", 12) for version in (1, 2)),
    *(Corner(version, False, start, 8) for version in (1, 2) for start in ("ready", "open")),
]


def explore(corner: Corner, most_states: int) -> tuple[Exploration, float]:
    begun = time.perf_counter()
    exploration = Exploration(corner.depth, most_states)
    exploration.run(
        world(corner.version, same_id=corner.same_id, start=corner.start, budget=corner.budget)
    )
    exploration.forget()
    return exploration, time.perf_counter() - begun


@click.command(help=__doc__)
@click.option(
    "--states",
    default=1_000_000,
    show_default=True,
    help="Maximum number of states of one exploration.",
)
@click.option("--jobs", default=2, show_default=True)
def main(states: int, jobs: int) -> None:
    total = 0
    with ProcessPoolExecutor(jobs) as pool:
        running = [(corner, pool.submit(explore, corner, states)) for corner in CORNERS]
        for corner, result in running:
            exploration, seconds = result.result()
            total += exploration.states
            whole = "all" if exploration.is_complete else "the first"
            click.echo(
                f"{corner!s:38} {whole} {exploration.states:,} states,"
                f" {exploration.steps_taken:,} steps, {exploration.ends:,} ends, {seconds:.0f} s"
            )
            for wrong, path in exploration.violations[:3]:
                click.echo("\n    ".join([wrong, *map(str, path)]))
            if exploration.violations:
                sys.exit(1)
    click.echo(f"{total:,} states, no violation")


if __name__ == "__main__":
    main()
