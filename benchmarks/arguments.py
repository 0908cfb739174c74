"""The command line of `python -m benchmarks`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.lifecycle import GROWTH
from benchmarks.loads import LOADS
from benchmarks.musts import PINNED, UNPINNED
from benchmarks.rows import ROWS
from benchmarks.run import MEMORY, START
from benchmarks.targets import NAMES

ALL_LOADS = (START, *LOADS, MEMORY, *GROWTH)


def arguments(description: str | None) -> argparse.Namespace:
    """Parse the command line. `--rows` takes names of loads, or of single rows of a load
    (`load.figure`)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=description)
    add = parser.add_argument
    add("--rows", type=loads, default=list(ALL_LOADS), help=", ".join(ALL_LOADS))
    add("--targets", type=names_of(NAMES), default=list(NAMES))
    add("--against", type=checkout, help="another checkout to measure in the same run (its folder)")
    add("--set", type=setting, action="append", default=[], help="NAME=VALUE, for this oncelog")
    add("--places", type=names_of((PINNED, UNPINNED)), default=[PINNED, UNPINNED])
    add("--quick", action="store_true", help="one short round without warm-up")
    add("--rounds", type=int, help="by default 3, or 1 with --quick")
    add("--warm", type=float, default=30.0, help="the maximum warm-up of each load, in s")
    add("--directory", help="the folder of the brokers' data; not on a tmpfs")
    add("--json", type=Path, help="the file of the result; in results/ by default")
    add("--markdown", action="store_true", help="print the tables as Markdown")
    add("--compare", type=Path, nargs="+", help="measure nothing: compare files of earlier runs")
    return parser.parse_args()


def names_of(known: Iterable[str]) -> Any:
    """Return the type of an argument that is a list of known names."""
    accepted = [*known]

    def names(text: str) -> list[str]:
        found = text.replace(",", " ").split()
        unknown = [name for name in found if name not in accepted]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is not among {', '.join(accepted)}")
        return found

    return names


def loads(text: str) -> list[str]:
    """Return the loads with their name, or the name of one of their rows, in `text`. The order is
    that of `ALL_LOADS`."""
    of_row = {row.name: row.load for row in ROWS}
    found = [of_row.get(name, name) for name in text.replace(",", " ").split()]
    named: list[str] = names_of(ALL_LOADS)(" ".join(found))
    return [name for name in ALL_LOADS if name in named]


def checkout(text: str) -> Path:
    """Return the absolute path of a checkout's folder."""
    root = Path(text).resolve()
    if not (root / "server" / "oncelog_server").is_dir():
        raise argparse.ArgumentTypeError(f"{text} has no server/oncelog_server")
    return root


def setting(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, value
