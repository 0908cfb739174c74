"""`make mutate` puts defects (mutants) into the packages of `CORES`, one at a time, and runs tests
that must find them. The seed chooses the defects.

A defect is tried against the tests of its own folder first. If all of them pass, wider tests are
tried, up to the first failure. An endless run, or a run that takes all memory, counts as found.
"""

from __future__ import annotations

import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Final, NamedTuple

import click

from tests.mutants.excused import excuse_for
from tests.mutants.generic import diff_of, mutants_of
from tests.mutants.mutant import Mutant
from tests.mutants.trial import copy_sources, first_failure, killer

SERVER: Final = "server/oncelog_server"
# The folder of a core's modules, by the first part of the core's name. The modules of other cores
# are in the server.
_FOLDERS: Final = {"protocol": "protocol/oncelog_protocol", "client": "client/oncelog_client"}
REQUIRED: Final = 0.95
_MEMORY: Final = 4 * 2**30
_SWARM: Final = "tests/simulation/test_swarm.py::test_nothing_is_lost_torn_or_doubled"
_ALL_OF_IT: Final = ("tests/exploration", f"{_SWARM}[0]", f"{_SWARM}[10]")
# Tests that use most modules of the server, and tests that use a client with a scripted broker and
# with a real one.
_USERS: Final = ("tests/server/handlers", "tests/server/hosting/test_replica_manager.py")
_SCRIPTED: Final = (
    "tests/client/test_block_time.py",
    "tests/client/test_consumer.py",
    "tests/client/test_deadlines.py",
    "tests/client/test_error_codes.py",
    "tests/client/test_missing_rows.py",
    "tests/client/test_producer.py",
)
_CLIENTS: Final = (
    "tests/client/test_against_broker.py",
    "tests/client/test_transactions_against_broker.py",
)


class Core(NamedTuple):
    """The tests of a core (a package or a group of modules), and the tests that use the core."""

    near: tuple[str, ...]
    wider: tuple[str, ...]


CORES: Final[dict[str, Core]] = {
    "transaction": Core(
        ("tests/server/transaction",),
        (
            "tests/server/coordinator",
            "tests/server/handlers",
            "tests/server/metrics/test_coordinators.py",
            "tests/server/group",
            *_ALL_OF_IT,
        ),
    ),
    "partition": Core(
        ("tests/server/partition",),
        (
            "tests/server/producing",
            "tests/server/fetching",
            "tests/server/handlers",
            "tests/server/metrics/test_partitions.py",
            "tests/server/transaction",
            *_ALL_OF_IT,
        ),
    ),
    "replica": Core(("tests/server/replica",), ("tests/server/partition",)),
    "log": Core(
        ("tests/server/log",),
        ("tests/server/partition", "tests/server/inspection", *_ALL_OF_IT),
    ),
    "group": Core(
        ("tests/server/group",),
        ("tests/server/coordinator", "tests/server/handlers", *_ALL_OF_IT),
    ),
    **{
        name: Core((f"tests/server/{name}",), (*_USERS, *_ALL_OF_IT))
        for name in ("cluster", "coordinator", "fetching", "metadata", "producing", "settings")
    },
    **{
        name: Core((f"tests/server/{name}",), _USERS)
        for name in ("cleaning", "links", "metrics", "network", "operating_system", "requests")
    },
    "data_directory": Core(
        ("tests/server/data_directory",),
        ("tests/server/test_background_duties.py", "tests/faults/test_ownership.py"),
    ),
    "protocol": Core(
        ("tests/protocol",),
        ("tests/server/log", "tests/server/handlers", "tests/client/core", "tests/client/io"),
    ),
    "client/core": Core(("tests/client/core",), (*_SCRIPTED, "tests/client/io")),
    "client/io": Core(("tests/client/io",), ("tests/client/core", *_SCRIPTED, *_CLIENTS)),
}

# Mutants of the client are drawn only on request, because most of them are found only with Java, or
# only after minutes.
BY_DEFAULT: Final = tuple(name for name in CORES if not name.startswith("client/"))


@click.command(help=__doc__)
@click.option("-n", "--number", default=150, show_default=True, help="Number of mutants to draw.")
@click.option("--seed", default=1, show_default=True)
@click.option("--modules", default=" ".join(BY_DEFAULT), help="Folders, or files in them.")
@click.option(
    "--lines", default="", help="Only mutants with a `file:line` that ends with one of these texts."
)
@click.option("--jobs", default=1, show_default=True)
def main(number: int, seed: int, modules: str, lines: str, jobs: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        root = copy_sources(Path(folder) / "0")
        every = [
            mutant
            for name in modules.replace(",", " ").split()
            for mutant in mutants_in(root, name)
        ]
        if lines:
            every = [entry for entry in every if entry.name.endswith(tuple(lines.split()))]
        drawn = drawn_from(every, number, seed)
        click.echo(f"{len(drawn)} of {len(every)} mutants, seed {seed}")
        failure = first_failure(root, all_tests(drawn), sound=True)
        if failure is not None:
            click.echo(f"without any mutant, {failure} fails: no mutant can be judged")
            sys.exit(1)
        others = [Path(folder) / str(number) for number in range(1, jobs)]
        sys.exit(run([root, *(shutil.copytree(root, other) for other in others)], drawn))


def mutants_in(root: Path, module: str) -> list[Mutant]:
    """Return the mutants of all files of a core, or of one file: `partition`,
    `partition/waiting.py`, `client/core`."""
    path = root / source_of(module)
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    found: list[Mutant] = []
    for file in files:
        name = file.relative_to(root).as_posix()
        tests = near_tests(root, core_of(name), file.stem)
        found += mutants_of(name, file.read_text(encoding="utf-8"), tests)
    return found


def source_of(module: str) -> str:
    """Return the path of a module or of a folder of modules."""
    first, _, rest = module.partition("/")
    return f"{_FOLDERS[first]}/{rest}".rstrip("/") if first in _FOLDERS else f"{SERVER}/{module}"


def core_of(file: str) -> Core:
    """Return the core that contains a source file."""
    return next(core for name, core in CORES.items() if file.startswith(f"{source_of(name)}/"))


def near_tests(root: Path, core: Core, stem: str) -> tuple[str, ...]:
    """Return the files of the core's own tests, and the files of its wider tests that have the
    module's name (`stem`). Files with the module's name come first. Tests of properties come last,
    because they are slow."""
    files = [file for folder in core.near for file in (root / folder).rglob("test_*.py")]
    files += [file for folder in core.wider for file in (root / folder).rglob(f"test_{stem}.py")]
    files.sort(key=lambda file: (stem not in file.stem, "properties" in file.stem, file.stem))
    return tuple(file.relative_to(root).as_posix() for file in files)


def drawn_from(every: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    places = random.Random(seed).sample(range(len(every)), min(number, len(every)))
    return [every[place] for place in sorted(places)]


def wider_tests(mutant: Mutant) -> tuple[str, ...]:
    return core_of(mutant.file).wider


def all_tests(mutants: Sequence[Mutant]) -> list[str]:
    """Return all tests that may run against any of these mutants."""
    lists = {tuple(sorted(mutant.tests)) for mutant in mutants} | {
        wider_tests(mutant) for mutant in mutants
    }
    return list(dict.fromkeys(test for tests in sorted(lists) for test in tests))


def run(
    copies: Sequence[Path], mutants: Sequence[Mutant], *, wider: Sequence[str] | None = None
) -> int:
    """Run the mutants and print a row for each. Return 1 if too few are found. `wider`: tests in
    place of the core's own wider tests."""
    free: Queue[Path] = Queue()
    for root in copies:
        free.put(root)

    def one(mutant: Mutant) -> str | None:
        excuse = excuse_for(mutant)
        if excuse is not None:
            return excuse
        root = free.get()
        try:
            return killer(root, mutant, wider=wider_tests(mutant) if wider is None else wider)
        except RuntimeError as nothing_ran:
            return f"nothing ran: {' '.join(str(nothing_ran).split())[-80:]}"
        finally:
            free.put(root)

    began, excused, living = time.monotonic(), 0, 0
    with ThreadPoolExecutor(len(copies)) as pool:
        for mutant, found in zip(mutants, pool.map(one, mutants), strict=True):
            excused += excuse_for(mutant) is not None
            living += found is None
            click.echo(f"{mutant.name} {mutant.what}: {found or 'LIVES'}")
            if found is None:
                click.echo("\n".join(diff_of(mutant)))
    tried = len(mutants) - excused
    rate = (tried - living) / max(tried, 1)
    click.echo(
        f"{tried - living} of {tried} killed, {excused} excused, {living} live: {rate:.1%},"
        f" {(time.monotonic() - began) / 60:.0f} min"
    )
    return 0 if rate >= REQUIRED else 1


if __name__ == "__main__":
    main()
