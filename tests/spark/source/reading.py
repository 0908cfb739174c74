"""Queries for tests: a batch read, and a stream that records its micro-batches."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.topics import Topics

DEADLINE_S: Final = 60.0

# The source looks twice, and reports a loss or a missing topic only if both looks find it.
PATIENCE: Final = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "20"}

Records = list[tuple[int, int]]


def frame(spark: SparkSession, log: Topics, **options: str) -> DataFrame:
    """Return a batch read of the source."""
    return spark.read.format("oncelog").options(**_options(log, options)).load()


def values(rows: DataFrame) -> list[bytes | None]:
    """Return the values in the order of topic, partition and offset."""
    found = rows.orderBy("topic", "partition", "offset").collect()
    return [None if row.value is None else bytes(row.value) for row in found]


class Stream:
    """A query that records its micro-batches. `batches`: (id, rows as (partition, offset, value))
    in the order of their runs. A repeated batch occurs twice."""

    def __init__(self, spark: SparkSession, log: Topics, checkpoint: str, **options: str) -> None:
        self._spark = spark
        self._log = log
        self.checkpoint = Path(checkpoint)
        self.options = options
        self.batches: list[tuple[int, list[tuple[int, int, bytes]]]] = []
        self.after_batch: Callable[[int], object] = lambda batch_id: None

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start or restart the query. Without a trigger, micro-batches follow at once."""
        source = self._spark.readStream.format("oncelog").options(
            **_options(self._log, self.options)
        )
        writer = source.load().writeStream.option("checkpointLocation", str(self.checkpoint))
        return (
            writer.trigger(**(trigger or {"processingTime": "0 seconds"}))
            .foreachBatch(self._take)
            .start()
        )

    def run(self, **trigger: Any) -> list[dict[str, Any]]:
        """Run until all existing records are read (`availableNow`), or with another trigger that
        ends by itself. Return the progress of the micro-batches. Raises StreamingQueryException."""
        query = self.start(**(trigger or {"availableNow": True}))
        assert query.awaitTermination(int(DEADLINE_S)), "the query does not end"
        return progress(query)

    def run_until(self, logged: Callable[[], object]) -> list[dict[str, Any]]:
        """Run until `logged()` has returned and all existing records are read. Return the progress
        of the micro-batches.

        `logged` waits for a line of the query's Python process. When a query ends, Spark closes the
        output of this process, and lines that Spark has not read yet are lost.
        """
        query = self.start()
        try:
            logged()
            query.processAllAvailable()
        finally:
            query.stop()
        return progress(query)

    def failure(self) -> str:
        """Run the query, which must fail. Return the text of its exception."""
        try:
            self.run()
        except StreamingQueryException as error:
            return str(error)
        raise AssertionError("the query did not fail")

    def forget_commit(self, batch_id: int) -> None:
        """Delete Spark's record that the batch is committed, as if the driver had died before it
        wrote this record. The next run repeats the batch."""
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in self.batches]

    @property
    def values(self) -> list[bytes]:
        """Return the values of all micro-batches, sorted."""
        return sorted(value for _, rows in self.batches for _, _, value in rows)

    def _take(self, rows: DataFrame, batch_id: int) -> None:
        found: list[Row] = rows.select("partition", "offset", "value").collect()
        self.batches.append((batch_id, sorted((r[0], r[1], bytes(r[2])) for r in found)))
        self.after_batch(batch_id)


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the progress of each micro-batch as JSON."""
    return [json.loads(progress.json) for progress in query.recentProgress]


def wait_until(condition: Callable[[], object], query: StreamingQuery, what: str) -> None:
    """Return once `condition()` is true. Fails after a minute, or if the query has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.02)


def stop(query: StreamingQuery) -> None:
    """Stop the query after Spark has committed the batches of all existing records. A restart then
    repeats no batch."""
    query.processAllAvailable()
    query.stop()


def failure_of(query: StreamingQuery) -> str:
    """Wait for the exception that ends a running query. Return its text."""
    try:
        query.awaitTermination(int(DEADLINE_S))
    except StreamingQueryException as error:
        return str(error)
    raise AssertionError("the query did not fail")


def _options(log: Topics, more: dict[str, str]) -> dict[str, str]:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": log.bootstrap, **PATIENCE, **named}
