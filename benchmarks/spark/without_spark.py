"""`python -m benchmarks.spark.without_spark`: the processor time of our source and our sink for a
micro-batch, over SASL_SSL and without security.

The process makes the calls that Spark makes in its Python processes, with warm connections. The two
listeners take turns. The processor time of this process and of the broker hardly changes on a busy
machine, where the duration of Spark's micro-batches cannot be measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow
from pyspark.sql.types import StructType

from benchmarks.machine import cpu_seconds
from benchmarks.spark.loads import KB
from benchmarks.spark.secured import PLAIN
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.source_rights import source_rights
from oncelog_client.spark.source.readers import stream_reader
from tests.harness.certificates import Certificates
from tests.spark.guarded import LISTENER, GuardedOncelog
from tests.spark.topics import Row, Topics

ROWS: Final = 100
TASKS: Final = 2
WARM: Final = 10
QUERY: Final = "query"
COLUMNS: Final = StructType().add("key", "binary").add("value", "binary")


class Cost(NamedTuple):
    """Milliseconds of a micro-batch: processor time of the client and of the broker, and the
    duration."""

    client: float
    broker: float
    duration: float


class Source:
    """A stream's reader, which reads the same offsets in each micro-batch."""

    def __init__(self, user: Mapping[str, str], topic: str) -> None:
        options = {**user, "subscribe": topic, "startingOffsets": "earliest"}
        self._reader = stream_reader(Options(options), COLUMNS)
        self._start = self._end(self._reader.initialOffset())

    def micro_batch(self) -> None:
        tasks = self._reader.partitions(self._start, self._end(self._start))
        read = sum(batch.num_rows for task in tasks for batch in self._reader.read(task))
        assert read == ROWS, read

    def _end(self, start: dict[str, Any]) -> dict[str, Any]:
        return self._reader.latestOffset(start, self._reader.getDefaultReadLimit())


class Sink:
    """A stream's sink with the name of its topic."""

    def __init__(self, user: Mapping[str, str], name: str) -> None:
        given = {**user, "sinkId": name, "topic": name}
        self._options = sink_options(Options(given), streaming=True)
        self._name = name
        self._batch = 0
        row = {"key": "1", "value": "x" * KB}
        self._rows = pyarrow.RecordBatch.from_pylist([row] * (ROWS // TASKS))

    def micro_batch(self) -> None:
        options = self._options
        plan = driver.plan(options, Intent(self._name, driver.commit_kind(options), QUERY))
        messages = [
            task_writer.write(plan, options, Attempt(task, QUERY, self._batch), iter([self._rows]))
            for task in range(TASKS)
        ]
        assert driver.commit(options, messages, self._batch, None)
        self._batch += 1


def cost_of(work: Callable[[], None], broker: GuardedOncelog) -> Cost:
    client, server, begin = time.process_time(), cpu_seconds(broker.pid), time.monotonic()
    work()
    return Cost(
        1000 * (time.process_time() - client),
        1000 * (cpu_seconds(broker.pid) - server),
        1000 * (time.monotonic() - begin),
    )


def measure(folder: Path, rounds: int) -> dict[tuple[str, str], Cost]:
    """Return the medians of `rounds` micro-batches, by what was measured and by the listener."""
    with GuardedOncelog(folder / "broker", Certificates(folder)) as broker:
        names = {PLAIN: "plain-sink", LISTENER: "secured-sink"}
        topics = Topics(broker.address)
        topics.create_all(["purchases", *names.values()])
        rows = [Row(b"x" * KB, partition=number % TASKS) for number in range(ROWS)]
        topics.append("purchases", rows)
        name = names[LISTENER]
        rights = (*source_rights(["purchases"]), *sink_rights(name, [name], CommitKind.GROUP))
        users = {
            PLAIN: {"kafka.bootstrap.servers": broker.address},
            LISTENER: broker.user("spark", rights),
        }
        work: dict[tuple[str, str], Callable[[], None]] = {}
        for listener, user in users.items():
            work["source", listener] = Source(user, "purchases").micro_batch
            work["sink", listener] = Sink(user, names[listener]).micro_batch
        found: dict[tuple[str, str], list[Cost]] = {key: [] for key in work}
        for _ in range(WARM + rounds):
            for key, micro_batch in work.items():
                found[key].append(cost_of(micro_batch, broker))
    return {
        key: Cost(*map(statistics.median, zip(*costs[WARM:], strict=True)))
        for key, costs in found.items()
    }


def main() -> None:
    """Print a line for source and sink, with and without security."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.without_spark")
    parser.add_argument("--rounds", type=int, default=60, help="measured micro-batches: 60")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
        for (what, listener), cost in measure(Path(folder), rounds).items():
            print(
                f"{what:6} {listener:8} client {cost.client:5.2f} ms, broker {cost.broker:5.2f} ms"
                f" of processor time, {cost.duration:5.1f} ms in all"
            )


if __name__ == "__main__":
    main()
