"""`python -m benchmarks.commands`: the processor time of short commands, beside that of Python
alone.

Each command runs in its own process against a broker with a few topics and a group. The
operating system reports the user and system time of the ended process. Each round runs every
command once, so that a slow moment of the computer affects all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.lifecycle import compile_packages
from tests.harness.broker import Oncelog

TOPICS: Final = ("orders", "payments", "customers", "clicks")
GROUP: Final = "billing"
ONCELOG: Final = Path(sys.executable).with_name("oncelog")

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "topic list": ("topic", "list"),
    "topic describe": ("topic", "describe", "orders"),
    "group list": ("group", "list"),
    "txn blocking": ("txn", "blocking"),
    "--help": ("--help",),
    "topic --help": ("topic", "--help"),
    "--version": ("--version",),
}
# A shell calls the program like this to complete `oncelog topic describe or`.
COMPLETION: Final = "completion of a topic's name"
COMPLETING: Final = {
    "_ONCELOG_COMPLETE": "bash_complete",
    "COMP_WORDS": "oncelog topic describe or",
    "COMP_CWORD": "3",
}
# Programs without oncelog, to compare the commands with.
PYTHONS: Final = {"python -c pass": "pass", "import asyncio": "import asyncio"}

MUST_MS: Final = 130.0
LIMITED: Final = "topic list"


@dataclass(frozen=True, slots=True)
class Used:
    """The processor times of the runs of one command, user plus system time, in ms."""

    name: str
    median_ms: float
    least_ms: float
    most_ms: float
    runs: int


def main() -> int:
    """Print a table for each program. Return 1 if the median of `topic list` exceeds `MUST_MS`."""
    args = arguments()
    compile_packages()
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-commands-") as folder,
        Oncelog(Path(folder)) as broker,
    ):
        fill(args.programs[0], broker.address)
        found = measure(args.programs, broker.address, args.runs)
    for program, rows in found.items():
        show(program, rows)
    if args.json:
        rows_of = {program: list(map(asdict, rows)) for program, rows in found.items()}
        args.json.write_text(json.dumps(rows_of, indent=1))
    listing = [row for rows in found.values() for row in rows if row.name == LIMITED]
    return int(any(row.median_ms > MUST_MS for row in listing))


def arguments() -> argparse.Namespace:
    """Parse the command line. Several executables of oncelog are measured in turn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commands", description=__doc__)
    parser.add_argument(
        "programs", nargs="*", default=[str(ONCELOG)], help="executables of oncelog"
    )
    parser.add_argument("--runs", type=int, default=30, help="runs of each command")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser.parse_args()


def fill(program: str, address: str) -> None:
    """Create the topics, a record, and a group with an offset."""
    for words, given in (
        (("topic", "create", *TOPICS, "-p", "3"), b""),
        (("produce", TOPICS[0]), b"one\n"),
        (("group", "seek", GROUP, "--to", "start", "--topic", TOPICS[0], "--execute"), b""),
    ):
        line = [program, *words, "--bootstrap-server", address]
        subprocess.run(line, check=True, input=given, capture_output=True)


def measure(programs: Sequence[str], address: str, runs: int) -> dict[str, list[Used]]:
    """Return the processor times of every command of each program. The first run does not count."""
    environment = {**os.environ, "ONCELOG_BOOTSTRAP_SERVER": address}
    lines: dict[tuple[str, str], tuple[list[str], Mapping[str, str]]] = {}
    for program in programs:
        python = str(Path(program).with_name("python"))
        for name, code in PYTHONS.items():
            lines[program, name] = [python, "-c", code], environment
        for name, words in COMMANDS.items():
            lines[program, name] = [program, *words], environment
        lines[program, COMPLETION] = [program], environment | COMPLETING
    times: dict[tuple[str, str], list[float]] = {key: [] for key in lines}
    for round_ in range(runs + 1):
        for key, (line, variables) in lines.items():
            took_ms = used_ms(line, variables)
            if round_:
                times[key].append(took_ms)
    return {
        program: [
            Used(name, statistics.median(found), min(found), max(found), len(found))
            for (of, name), found in times.items()
            if of == program
        ]
        for program in programs
    }


def used_ms(line: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the processor time of a process, with all its threads, in ms. Raises
    CalledProcessError if the process fails."""
    with subprocess.Popen(
        line, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(line))
    return (usage.ru_utime + usage.ru_stime) * 1000


def show(program: str, rows: Sequence[Used]) -> None:
    """Print the figures of one program."""
    table = Table("command", "median ms", "least ms", "most ms", "runs", title=program)
    for row in rows:
        table.add_row(
            row.name,
            *(f"{figure:.0f}" for figure in (row.median_ms, row.least_ms, row.most_ms)),
            str(row.runs),
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
