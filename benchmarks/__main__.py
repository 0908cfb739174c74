"""`python -m benchmarks`: oncelog beside Apache Kafka, as tables and as JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import compare, document, machine
from benchmarks.arguments import arguments
from benchmarks.bench import FULL, QUICK
from benchmarks.checkout import Checkout, commit_of
from benchmarks.document import Document
from benchmarks.report import print_comparison, print_run
from benchmarks.run import Measured, Plan, places, run
from benchmarks.targets import AGAINST, KAFKA, ONCELOG, Maker, Makers, kafka, oncelog
from tests.harness.kafka.jars import KAFKA_VERSION, KafkaUnavailable, classpath

RESULTS = Path(__file__).with_name("results")


def main() -> int:
    """Run the command line. Return 1 if a row misses its `must` (its limit), 2 if the bench cannot
    run, else 0."""
    args = arguments(__doc__)
    try:
        if args.compare:
            runs = [document.read(path) for path in args.compare]
            return int(print_comparison(runs, as_markdown=args.markdown))
        return measured(args)
    except (
        KafkaUnavailable,
        machine.UnfitMachine,
        compare.UnlikeRuns,
        document.UnreadableDocument,
    ) as reason:
        print(f"the bench cannot run: {reason}", file=sys.stderr)
        return 2


def measured(args: argparse.Namespace) -> int:
    """Measure, print the tables and write the result. Return the exit code: with `--quick`, a
    missed `must` does not count."""
    machine.require_linux()
    if KAFKA in args.targets:
        classpath()
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-", dir=args.directory) as folder:
        rounds = run(plan_of(args, makers_of(args)), Path(folder))
    found = document_of(args, rounds)
    is_missed = print_run(found, as_markdown=args.markdown)
    path = args.json or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    document.write(found, path)
    print(f"\nwritten to {path}", file=sys.stderr)
    return int(is_missed and not args.quick)


def makers_of(args: argparse.Namespace) -> Makers:
    """Return the brokers of the run, in the order of their turns."""
    every: dict[str, Maker] = {KAFKA: kafka, ONCELOG: oncelog(dict(args.set))}
    makers = {name: make for name, make in every.items() if name in args.targets}
    if args.against is not None:
        checkout = Checkout(args.against)
        checkout.prepare()
        makers[AGAINST] = checkout.make
    return makers


def plan_of(args: argparse.Namespace, makers: Makers) -> Plan:
    """Return the plan that the command line describes."""
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", file=sys.stderr, flush=True)

    return Plan(
        targets=makers,
        loads=args.rows,
        places=places(args.places),
        pace=QUICK if args.quick else FULL,
        rounds=args.rounds or (1 if args.quick else 3),
        warm_s=0 if args.quick else args.warm,
        again_s=0 if args.quick else args.warm / 4,
        say=say,
    )


def document_of(args: argparse.Namespace, rounds: dict[str, Measured]) -> Document:
    """Return the result of this run."""
    commits = {ONCELOG: commit_of(Path(__file__).parent)}
    if args.against is not None:
        commits[AGAINST] = commit_of(args.against)
    return Document(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        is_quick=args.quick,
        kafka_version=KAFKA_VERSION,
        machine=machine.facts(),
        commits=commits,
        settings=dict(args.set),
        rounds=rounds,
    )


if __name__ == "__main__":
    sys.exit(main())
