"""`make fuzz`: runs families of inputs in several processes, and prints what it has found.

    python -m tests.fuzz --inputs 10000000              # each family
    python -m tests.fuzz jwt --seed 7 --first 12 --inputs 1
    python -m tests.fuzz jwt --input build/fuzz/jwt-0a1b2c3d

Tokens and certificates have new keys in each process, so an input is also written to a file. The
exit code is 1 if there is a finding.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import click

from tests.fuzz.families import FAMILIES
from tests.fuzz.fuzzing import Family, Finding, checked, fuzz

FOLDER: Final = Path("build/fuzz")
# Inputs of one task of a process.
TASK: Final = 20_000


@cache
def family_of(name: str) -> Family:
    return FAMILIES[name]()


def run(name: str, seed: int, numbers: range) -> Counter[str] | str:
    """Return the outcomes, or the text of a finding."""
    try:
        return fuzz(family_of(name), seed, numbers)
    except Finding as finding:
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / f"{name}-{hashlib.sha256(finding.data).hexdigest()[:8]}"
        path.write_bytes(finding.data)
        again = f"python -m tests.fuzz {name} --seed {seed} --first {finding.number} --inputs 1"
        return f"{name}: {finding}\n  {again}\n  python -m tests.fuzz {name} --input {path}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(FAMILIES)))
@click.option("--inputs", default=100_000, help="Inputs of each family.")
@click.option("--seed", default=0, help="Another seed has other inputs.")
@click.option("--first", default=0, help="The number of the first input.")
@click.option("--jobs", default=2, help="Number of processes.")
@click.option("--input", "file", type=click.Path(exists=True, path_type=Path), help="One input.")
def main(
    names: tuple[str, ...], inputs: int, seed: int, first: int, jobs: int, file: Path | None
) -> None:
    """Run families of inputs, all by default."""
    if file is not None:
        for name in names:
            click.echo(f"{name}: {checked(family_of(name), file.read_bytes())}")
        return
    findings = 0
    for name in names or FAMILIES:
        started = time.monotonic()
        tasks = [
            range(start, min(start + TASK, first + inputs))
            for start in range(first, first + inputs, TASK)
        ]
        outcomes: Counter[str] = Counter()
        with ProcessPoolExecutor(jobs) as pool:
            count = len(tasks)
            for result in pool.map(run, [name] * count, [seed] * count, tasks):
                if isinstance(result, str):
                    click.echo(result, err=True)
                    findings += 1
                else:
                    outcomes += result
        parts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        click.echo(f"{name}: {parts}, {time.monotonic() - started:.0f} s")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
