"""`python -m benchmarks`: oncelog beside Apache Kafka, as tables and as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.lifecycle import GROWTH
from benchmarks.loads import FULL, LOADS, QUICK
from benchmarks.rows import ROWS
from benchmarks.run import MEMORY, PINNED, START, UNPINNED, Measured, Plan, places, run
from benchmarks.table import HEADINGS, Result, cells, markdown, results
from benchmarks.targets import KAFKA, MAKERS, ONCELOG
from tests.harness.kafka.jars import KAFKA_VERSION, KafkaUnavailable, classpath

ALL_LOADS = (START, *LOADS, MEMORY, *GROWTH)
RESULTS = Path(__file__).with_name("results")


def main() -> int:
    """Run the command line. Return 1 if a `must` is missed, 2 if the bench cannot run."""
    args = arguments()
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", file=sys.stderr, flush=True)

    try:
        machine.require_linux()
        if KAFKA in args.targets:
            classpath()
        plan = Plan(
            targets=args.targets,
            loads=args.rows,
            places=places(args.places),
            pace=QUICK if args.quick else FULL,
            rounds=args.rounds or (1 if args.quick else 3),
            warm_s=0 if args.quick else args.warm,
            again_s=0 if args.quick else args.warm / 4,
            say=say,
        )
        with tempfile.TemporaryDirectory(prefix="oncelog-bench-", dir=args.directory) as folder:
            measured = run(plan, Path(folder))
    except (KafkaUnavailable, machine.UnfitMachine) as reason:
        print(f"the bench cannot run: {reason}", file=sys.stderr)
        return 2
    tables = {place: results(ROWS, of_place) for place, of_place in measured.items()}
    for place, found in tables.items():
        show(place, found, as_markdown=args.markdown)
    write(args, tables, measured)
    missed = [found for found in tables.get(PINNED, []) if found.reaches(found.row.must) is False]
    return int(bool(missed) and not args.quick)


def arguments() -> argparse.Namespace:
    """Parse the command line. `--rows` are names of loads, or of rows as `load.figure`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=_loads, default=list(ALL_LOADS), help=", ".join(ALL_LOADS))
    parser.add_argument("--targets", type=names_of(MAKERS), default=[KAFKA, ONCELOG])
    parser.add_argument("--places", type=names_of((PINNED, UNPINNED)), default=[PINNED, UNPINNED])
    parser.add_argument("--quick", action="store_true", help="one short round, nothing warm")
    parser.add_argument("--rounds", type=int, help="3 unless --quick")
    parser.add_argument("--warm", type=float, default=60.0, help="the most s for each load")
    parser.add_argument("--directory", help="the folder of the brokers' data; not on a tmpfs")
    parser.add_argument("--json", type=Path, help="the file of the result; in results/ by default")
    parser.add_argument("--markdown", action="store_true", help="print tables for a document")
    return parser.parse_args()


def names_of(known: Any) -> Any:
    """Return a type of argument: some of the known names."""

    def names(text: str) -> list[str]:
        found = text.replace(",", " ").split()
        unknown = [name for name in found if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is not among {', '.join(known)}")
        return found

    return names


def _loads(text: str) -> list[str]:
    rows = {row.name: row.load for row in ROWS}
    found = [rows.get(name, name) for name in text.replace(",", " ").split()]
    named: list[str] = names_of(ALL_LOADS)(" ".join(found))
    return [name for name in ALL_LOADS if name in named]


def show(place: str, found: list[Result], *, as_markdown: bool) -> None:
    """Print one table."""
    if as_markdown:
        print(f"\n{place}\n\n{markdown(found)}")
        return
    table = Table(title=f"oncelog / Apache Kafka {KAFKA_VERSION}, {place}", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("what", "unit") else "right")
    for result in found:
        missed = result.reaches(result.row.must) is False
        table.add_row(*cells(result), style="red" if missed else "")
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def write(
    args: argparse.Namespace, tables: dict[str, list[Result]], measured: dict[str, Measured]
) -> None:
    """Write the result as JSON: medians, and every round behind them."""
    now = datetime.now(UTC)
    path = args.json or RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "when": now.isoformat(timespec="seconds"),
        "quick": args.quick,
        "kafka_version": KAFKA_VERSION,
        "machine": machine.facts(),
        "tables": {place: [found.as_json() for found in rows] for place, rows in tables.items()},
        "rounds": measured,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\nwritten to {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
