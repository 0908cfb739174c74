"""`make mutants`: each named defect in turn, and the test that finds it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import click

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.trial import WIDER, copy_sources, first_failure, killer


@click.command(help=__doc__)
@click.option("--only", default="", help="Names, separated by commas or spaces.")
@click.option("--tests", default="", help="Run these tests instead of the named ones.")
@click.option("--jobs", default=2, show_default=True)
def main(only: str, tests: str, jobs: int) -> None:
    wanted = set(only.replace(",", " ").split())
    mutants = [mutant for mutant in MUTANTS if not wanted or mutant.name in wanted]
    if tests:
        mutants = [mutant._replace(tests=tuple(tests.split())) for mutant in mutants]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(jobs):
            copies.put(copy_sources(Path(folder) / str(number)))
        sys.exit(run(mutants, copies, jobs, wider=() if tests else WIDER))


def run(mutants: list[Mutant], copies: Queue[Path], jobs: int, *, wider: Sequence[str]) -> int:
    """Run the mutants and print a row for each. Return 1 if a mutant survives, or if a test fails
    without any mutant."""
    lists = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    root = copies.get()
    failure = first_failure(root, lists, sound=True)
    copies.put(root)
    if failure is not None:
        click.echo(f"without any mutant, {failure} fails: no mutant can be judged")
        return 1

    def one(mutant: Mutant) -> str | None:
        root = copies.get()
        try:
            return killer(root, mutant, wider=wider)
        finally:
            copies.put(root)

    living = 0
    with ThreadPoolExecutor(jobs) as pool:
        for mutant, found in zip(mutants, pool.map(one, mutants), strict=True):
            living += found is None
            click.echo(f"{mutant.name:5} {mutant.what:64} {found or 'LIVES'}")
    click.echo(f"{len(mutants) - living} of {len(mutants)} mutants are killed")
    return 1 if living else 0


if __name__ == "__main__":
    main()
