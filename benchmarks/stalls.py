"""`python -m benchmarks.stalls`: the effect of large requests on a producer that sends one message
at a time.

Each row of the result is a load of large requests on one broker. During the load, one connection
produces a message every 5 ms, and another sends ApiVersions every 5 ms. The slowest response to
ApiVersions is the longest stall of the broker's event loop.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.beside import Beside, Latencies
from benchmarks.cold_log import PARTITIONS as COLD_PARTITIONS
from benchmarks.stall_loads import PARTITIONS_OF_A_TOPIC, TOPICS, Load, Loads
from benchmarks.stall_table import Measured, show
from benchmarks.timed_log import PARTITIONS as TIMED_PARTITIONS
from benchmarks.undecoded import Failed
from oncelog.testing.ports import reserve_port
from oncelog_protocol.messages.create_topics import CreatableTopic
from oncelog_protocol.messages.metadata import MetadataRequest
from tests.harness.broker import Oncelog

RECORDS: Final = 5
# The topics of all loads, and PACED.
MOST_PARTITIONS: Final = TOPICS * PARTITIONS_OF_A_TOPIC + 2 + 2 * COLD_PARTITIONS + TIMED_PARTITIONS
PACED: Final = "paced"
MUST_START_S: Final = 8.0
MUST_STOP_S: Final = 10.0


class Stalls:
    """Measures the loads on one broker."""

    def __init__(self, broker: Oncelog, metrics_port: int, say: Callable[[str], None]) -> None:
        self._broker = broker
        self._loads = Loads(broker, metrics_port)
        self._say = say

    def measure(self, only: Sequence[str]) -> Iterator[Measured]:
        """Yield a row for each load with one of `only` in its name, and in any case the rows of the
        clean stop and the start after it. Empty `only` means all loads."""
        self._loads.create([CreatableTopic(PACED, 1, 1)])
        with Beside(self._broker.address, PACED) as beside:
            for load in self._loads:
                if only and not any(word in load.name for word in only):
                    if load.is_always_run:
                        load.run()
                    continue
                failures: list[str] = []
                seconds, found = beside.during(partial(self._try, load, failures))
                yield self._row(load, seconds, found, *failures)
        yield from self._stop_and_start()

    def _try(self, load: Load, failures: list[str]) -> None:
        """Run a load. If it fails, add the failure to `failures` instead of raising it."""
        try:
            load.run()
        except (Failed, OSError) as failure:
            failures.append(f"not answered: {failure}")

    def _row(self, load: Load, seconds: float, found: Latencies, failure: str = "") -> Measured:
        self._say(f"{load.name}: {seconds:.2f} s, {found.messages} messages meanwhile {failure}")
        in_ms = [latency * 1000 for latency in (found.p50, found.p99, found.longest, found.stall)]
        p50, p99, longest, stall = in_ms
        return Measured(load.name, seconds, load.must_seconds, p50, p99, longest, stall, failure)

    def _stop_and_start(self) -> Iterator[Measured]:
        self._loads.fill(RECORDS)
        self._say(f"{RECORDS} records in each partition")
        began = time.monotonic()
        self._broker.stop(60)
        count = TOPICS * PARTITIONS_OF_A_TOPIC
        stop = f"a clean stop of {count} partitions with at least {RECORDS} records each"
        yield Measured(stop, time.monotonic() - began, MUST_STOP_S)
        began = time.monotonic()
        self._broker.start()
        self._loads.call(MetadataRequest(topics=[]), 12)
        yield Measured(
            "the next start, to the first response", time.monotonic() - began, MUST_START_S
        )


def main() -> int:
    """Run the loads. Return 1 if a row misses a goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument(
        "--rows",
        nargs="*",
        default=[],
        help="measure only loads with one of these words in their name",
    )
    parser.add_argument("--directory", help="the folder of the broker's data; not on a tmpfs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", type=Path, help="write the measured values to this file")
    args = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    folder = tempfile.TemporaryDirectory(prefix="oncelog-stalls-", dir=args.directory)
    with folder as path:
        port = reserve_port(folder)
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "oncelog.max.partitions": str(MOST_PARTITIONS),
            "oncelog.metrics.port": str(port),
        }
        with Oncelog(Path(path), settings) as broker:
            rows = list(Stalls(broker, port, say).measure(args.rows))
    show(rows, as_markdown=args.markdown)
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(any(row.misses for row in rows))


if __name__ == "__main__":
    sys.exit(main())
