"""`python -m benchmarks.spark`: compare oncelog's Spark format with Spark's own Kafka connector, on
one broker."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.__main__ import RESULTS
from benchmarks.arguments import names_of
from benchmarks.spark.loads import FULL, KB, LOADS, QUICK, Bench, Pace
from benchmarks.spark.parties import NAMES, running
from benchmarks.spark.parts import (
    REQUEST_HEADINGS,
    SINK_HEADINGS,
    as_markdown,
    headings,
    parts,
    requests,
    sink_parts,
)
from benchmarks.spark.rows import MS_FIGURE, ROWS, SECURED_ROWS
from benchmarks.spark.secured import PLAIN, SECURED_FULL, SECURED_QUICK, secured_benches
from benchmarks.table import Figures, Result, cells, results
from benchmarks.table import headings as headings_beside
from oncelog.testing.ports import free_ports
from tests.harness.broker import Oncelog
from tests.spark.connector.official import SPARK_VERSION, ConnectorUnavailable

TOPICS = {100: "bench-100", KB: "bench-1000"}
METRICS_PORT = "oncelog.metrics.port"
SETTINGS = {"num.partitions": "2", "oncelog.metrics.host": "127.0.0.1"}

TITLES = {
    "connector": 'format("oncelog") / Spark\'s own Kafka connector',
    PLAIN: 'format("oncelog") over SASL_SSL / without security',
}

Measured = dict[str, dict[str, list[Figures]]]


def main() -> int:
    """Run the command line. Return 2 if the bench cannot run, and 1 if a row of the result misses
    its limit (`must`) in a run without --quick. Otherwise return 0."""
    args = arguments()
    full, quick = (SECURED_FULL, SECURED_QUICK) if args.secured else (FULL, QUICK)
    pace = quick if args.quick else full
    rounds = args.rounds or (1 if args.quick else 3)
    begin, (port,) = time.monotonic(), free_ports(1)

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", file=sys.stderr, flush=True)

    try:
        with (
            tempfile.TemporaryDirectory(prefix="oncelog-bench-", dir=args.directory) as folder,
            benches_of(args, Path(folder), port, pace) as benches,
        ):
            fill(benches[0], args.rows, say)
            measured = run(benches, args.rows, rounds, say)
    except ConnectorUnavailable as reason:
        print(f"the bench cannot run: {reason}", file=sys.stderr)
        return 2
    found = results(SECURED_ROWS, measured, PLAIN) if args.secured else results(ROWS, measured)
    show(found, measured, PLAIN if args.secured else "connector", as_text=args.markdown)
    write(args, found, measured)
    missed = [result for result in found if result.reaches(result.row.must) is False]
    return int(bool(missed) and not args.quick)


def arguments() -> argparse.Namespace:
    """Parse the command line. `--rows` takes names of loads. By default they are all, or with
    `--secured` those of SECURED_ROWS."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=names_of(LOADS), help=", ".join(LOADS))
    parser.add_argument("--formats", type=names_of(NAMES), default=list(NAMES))
    parser.add_argument(
        "--secured", action="store_true", help="our format over SASL_SSL beside no security"
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, help="measured rounds: 3, or 1 with --quick")
    parser.add_argument("--directory", help="the folder of all data; not on a tmpfs")
    parser.add_argument("--json", type=Path, help="the file of the result; in results/ by default")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    args = parser.parse_args()
    if args.rows is None:
        args.rows = [row.load for row in SECURED_ROWS] if args.secured else list(LOADS)
    return args


@contextmanager
def benches_of(
    args: argparse.Namespace, folder: Path, port: int, pace: Pace
) -> Iterator[list[Bench]]:
    """Start a broker and the Sparks, and yield what takes turns: the formats, or with --secured our
    format without security and with it. Raises ConnectorUnavailable."""
    settings = SETTINGS | {METRICS_PORT: str(port)}
    if args.secured:
        with secured_benches(folder / "secured", settings, port, pace, TOPICS) as benches:
            yield benches
        return
    with (
        Oncelog(folder / "broker", settings) as broker,
        running(args.formats, folder) as parties,
    ):
        yield [Bench(name, party, broker, port, pace, TOPICS) for name, party in parties.items()]


def run(
    benches: list[Bench], names: list[str], rounds: int, say: Callable[[str], None]
) -> Measured:
    """Run each load in `rounds` rounds, after one round that only warms up. In each round, the
    formats run one after the other."""
    measured: Measured = {}
    for name in names:
        found: dict[str, list[Figures]] = {bench.name: [] for bench in benches}
        for number in range(rounds + 1):
            # A round begins with the format that was last in the round before, as in `make bench`.
            for bench in benches[:: 1 - 2 * (number % 2)]:
                figures = LOADS[name](bench)
                if number:
                    found[bench.name].append(figures)
                say(f"{name}: {bench.name}: {_said(figures)}")
        measured[name] = found
    return measured


def _said(figures: Figures) -> str:
    rate = f"{figures['rows_per_s']:,.0f} rows/s"
    return f"{figures[MS_FIGURE]:,.0f} ms, {rate}" if MS_FIGURE in figures else rate


def fill(bench: Bench, names: list[str], say: Callable[[str], None]) -> None:
    """Write the topics that these loads read, with the sink of the format of `bench`."""
    rows = bench.pace.rows
    for size, topic in bench.topics.items():
        if size != KB and "read100" not in names:
            continue
        options = bench.sink() | {"topic": topic}
        bench.call("batch_write", rows=rows, bytes=size, options=options)
        say(f"{topic}: {rows:,} rows")


def show(found: list[Result], measured: Measured, baseline: str, *, as_text: bool) -> None:
    """Print four tables: the ratios to the baseline, the parts of a micro-batch's time, the part of
    addBatch that our sink takes, and the requests of a micro-batch."""
    tables = {
        TITLES[baseline]: (headings_beside(baseline), list(map(cells, found))),
        "parts of a micro-batch, ms": (headings(), parts(measured)),
        "our sink's part of addBatch": (SINK_HEADINGS, sink_parts(measured)),
        "requests of a micro-batch": (REQUEST_HEADINGS, requests(measured)),
    }
    for title, (heads, lines) in tables.items():
        if as_text:
            print(f"\n{title}\n\n{as_markdown(heads, lines)}")
            continue
        table = Table(title=title, title_justify="left")
        for heading in heads:
            table.add_column(heading)
        for line in lines:
            table.add_row(*line, style="red" if line[-1] == "NO" else "")
        Console(width=None if sys.stdout.isatty() else 160).print(table)


def write(args: argparse.Namespace, found: list[Result], measured: Measured) -> None:
    """Write the result as JSON: the medians, and every round."""
    now = datetime.now(UTC)
    path = args.json or RESULTS / f"spark-{now:%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "when": now.isoformat(timespec="seconds"),
        "quick": args.quick,
        "spark_versions": {"oncelog": pyspark.__version__, "kafka": SPARK_VERSION},
        "machine": machine.facts(),
        "table": [result.as_json() for result in found],
        "rounds": measured,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\nwritten to {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
