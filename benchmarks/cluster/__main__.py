"""`python -m benchmarks.cluster`: three brokers of oncelog with etcd beside three nodes of Apache
Kafka, as tables and as JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import compare, document, machine
from benchmarks.arguments import names_of
from benchmarks.bench import MB
from benchmarks.checkout import commit_of
from benchmarks.cluster.document import ClusterDocument
from benchmarks.cluster.run import ALL_LOADS, Plan, run
from benchmarks.loadgen import LoadFailed
from benchmarks.musts import PINNED, UNPINNED
from benchmarks.report import print_comparison, print_run
from benchmarks.run import places
from benchmarks.targets import KAFKA, NAMES, ONCELOG, TargetFailed
from tests.harness.kafka.jars import KAFKA_VERSION, KafkaUnavailable, classpath

RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    """Run the command line. Return 1 if a row misses its `must` (its limit), 2 if the bench cannot
    run, else 0."""
    args = _arguments()
    try:
        if args.compare:
            runs = [document.read(path, ClusterDocument) for path in args.compare]
            return int(print_comparison(runs, as_markdown=args.markdown))
        return _measured(args)
    except (
        KafkaUnavailable,
        LoadFailed,
        TargetFailed,
        machine.UnfitMachine,
        compare.UnlikeRuns,
        document.UnreadableDocument,
    ) as reason:
        print(f"the bench cannot run: {reason}", file=sys.stderr)
        return 2


def _measured(args: argparse.Namespace) -> int:
    """Measure, print the tables and write the result. Return the exit code: with `--quick`, a
    missed `must` does not count."""
    machine.require_linux()
    if KAFKA in args.targets:
        classpath()
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-", dir=args.directory) as folder:
        rounds = run(_plan(args), Path(folder))
    found = ClusterDocument(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        is_quick=args.quick,
        kafka_version=KAFKA_VERSION,
        machine=machine.facts(),
        commits={ONCELOG: commit_of(Path(__file__).parent)},
        settings={"members of etcd": str(args.etcd)},
        rounds=rounds,
    )
    is_missed = print_run(found, as_markdown=args.markdown)
    path = args.json or RESULTS / f"cluster-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    document.write(found, path)
    print(f"\nwritten to {path}", file=sys.stderr)
    return int(is_missed and not args.quick)


def _plan(args: argparse.Namespace) -> Plan:
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", file=sys.stderr, flush=True)

    quick = args.quick
    return Plan(
        targets=args.targets,
        loads=args.rows,
        places=places(args.places),
        seconds=1.0 if quick else 3.0,
        max_bytes=(100 if quick else 1_000) * MB,
        partitions=30 if quick else 1_000,
        rounds=args.rounds or (1 if quick else 3),
        faults=args.faults or (1 if quick else 10),
        warm_s=0 if quick else args.warm,
        members=args.etcd,
        say=say,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    add = parser.add_argument
    add("--rows", type=names_of(ALL_LOADS), default=list(ALL_LOADS), help=", ".join(ALL_LOADS))
    add("--targets", type=names_of(NAMES), default=list(NAMES))
    add("--places", type=names_of((PINNED, UNPINNED)), default=[PINNED, UNPINNED])
    add("--etcd", type=int, choices=(1, 3), default=3, help="the members of etcd")
    add("--quick", action="store_true", help="one short round without warm-up")
    add("--rounds", type=int, help="by default 3, or 1 with --quick")
    add("--faults", type=int, help="brokers to end in each load; by default 10, or 1 with --quick")
    add("--warm", type=float, default=60.0, help="the maximum warm-up of each load, in s")
    add("--directory", help="the folder of the brokers' data; not on a tmpfs")
    add("--json", type=Path, help="the file of the result; in results/ by default")
    add("--markdown", action="store_true", help="print the tables as Markdown")
    add("--compare", type=Path, nargs="+", help="measure nothing: compare files of earlier runs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
