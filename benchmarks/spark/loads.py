"""The loads of the Spark benchmark. A turn runs one load once, with one format, and returns its
figures by name."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

from benchmarks.spark.request_counts import requests_so_far
from benchmarks.spark.rows import MS_FIGURE
from benchmarks.spark.sink_log import sink_figures
from benchmarks.table import Figures
from benchmarks.targets import KAFKA
from tests.harness.broker import Oncelog
from tests.spark.connector.process import SparkProcess

CALL_TIMEOUT_S: Final = 900.0
KB: Final = 1000
WRITTEN: Final = "bench-written"
SINKS: Final = "bench-"
"""The beginning of the sinks' names."""
REQUESTS: Final = "requests."
"""Prefix of figures that count requests of an API per micro-batch."""

Progress = Mapping[str, Any]
_names = count(1)


@dataclass(frozen=True, slots=True)
class Pace:
    """The amount of work in one turn: the rows of a batch read, and for each size of a micro-batch
    the number of warm-up batches and of measured batches. The batches of one size together have
    fewer rows than a topic."""

    rows: int
    micro_batches: Mapping[int, tuple[int, int]]


FULL = Pace(1_000_000, {100: (5, 20), 10_000: (5, 20), 100_000: (2, 7)})
QUICK = Pace(400_000, {100: (2, 5), 10_000: (2, 5), 100_000: (1, 2)})


@dataclass(frozen=True, slots=True)
class Bench:
    """One format at one broker. `topics`: the topics to read, by the size of their values in
    bytes. `more`: options of the source and of the sink, which may name another listener of the
    broker."""

    name: str
    party: SparkProcess
    broker: Oncelog
    metrics_port: int
    pace: Pace
    topics: Mapping[int, str]
    more: Mapping[str, str] = field(default_factory=dict)

    def call(self, operation: str, **fields: Any) -> Any:
        return self.party.call(operation, timeout_s=CALL_TIMEOUT_S, **fields)

    def source(self, size: int) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.broker.address, "subscribe": self.topics[size]}
        return options | {"kafka.isolation.level": "read_committed"} | dict(self.more)

    def sink(self) -> dict[str, str]:
        """Return options to write to the topic that all loads write to."""
        options = {"kafka.bootstrap.servers": self.broker.address, "topic": WRITTEN}
        return options | dict(self.more)

    def stream_sink(self) -> dict[str, str]:
        """Return the options of a streaming query that writes to the topic of `sink`. With our
        format, each query has its own sink id."""
        return self.sink() | ({} if self.name == KAFKA else {"sinkId": f"{SINKS}{next(_names)}"})


Turn = Callable[[Bench], Figures]


def read(bench: Bench, size: int) -> Figures:
    """Read a whole topic in one batch."""
    return {"rows_per_s": bench.pace.rows / bench.call("batch_read", options=bench.source(size))}


def write(bench: Bench, size: int) -> Figures:
    """Write a third of a topic's rows in one batch."""
    rows = bench.pace.rows // 3
    options = bench.sink()
    return {"rows_per_s": rows / bench.call("batch_write", rows=rows, bytes=size, options=options)}


def source(bench: Bench, rows: int) -> Figures:
    """Run micro-batches that read a topic and drop the rows."""
    return _micro_batches(bench, rows, "read_stream", options=bench.source(KB))


def sink(bench: Bench, rows: int, keys: bool = True) -> Figures:
    """Run micro-batches that write new rows to a topic."""
    options = bench.stream_sink()
    return _micro_batches(bench, rows, "write_stream", bytes=KB, keys=keys, options=options)


def noop(bench: Bench, rows: int) -> Figures:
    """Run micro-batches that make rows and drop them. They show the difference between the Spark
    versions of the two formats."""
    return _micro_batches(bench, rows, "no_stream", bytes=KB)


def _micro_batches(bench: Bench, rows: int, operation: str, **fields: Any) -> Figures:
    warm, counted = bench.pace.micro_batches[rows]
    before, said = requests_so_far(bench.metrics_port), bench.party.log.stat().st_size
    done = bench.call(operation, rows=rows, batches=warm + counted, **fields)
    requests = requests_so_far(bench.metrics_port)
    requests.subtract(before)
    each = {REQUESTS + api: count / len(done) for api, count in requests.items() if count}
    log = bench.party.log.read_bytes()[said:].decode(errors="replace")
    return figures(done[warm:]) | each | sink_figures(log, counted)


def figures(batches: list[Progress]) -> dict[str, float]:
    """Return the median duration (ms) of each part of a micro-batch, under Spark's name for the
    part, and the rows/s. The rows/s are the median number of rows, divided by the median
    duration of a micro-batch."""
    durations = [batch["durationMs"] for batch in batches]
    names = {name for duration in durations for name in duration}
    found = {
        name: statistics.median(duration.get(name, 0) for duration in durations) for name in names
    }
    rows = statistics.median(batch["numInputRows"] for batch in batches)
    return found | {"rows_per_s": 1000 * rows / found[MS_FIGURE]}


SIZES: Final = {"100": 100, "10k": 10_000, "100k": 100_000}

LOADS: Final[dict[str, Turn]] = {
    "read100": partial(read, size=100),
    "read1k": partial(read, size=KB),
    **{f"source{name}": partial(source, rows=rows) for name, rows in SIZES.items()},
    **{f"sink{name}": partial(sink, rows=rows) for name, rows in SIZES.items()},
    "keyless100k": partial(sink, rows=100_000, keys=False),
    "write1k": partial(write, size=KB),
    "noop100": partial(noop, rows=100),
    "noop100k": partial(noop, rows=100_000),
}
