"""A program that starts Spark and runs the loads of one format: batch reads and batch writes, with
their durations, and micro-batches, with the durations that Spark reports.

Arguments: the format's name, jars (may be empty) and a folder for Spark's files.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.connector.process import serve

Options = dict[str, str]

POLL_S = 0.1
STREAM_DEADLINE_S = 120.0
NUMBER_BYTES = 6

# These are settings for a program without a screen on one computer. None favors one format.
SETTINGS = {
    "spark.app.name": "bench",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "WARN",
    "spark.master": "local[2]",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Program:
    """The operations. `bytes` is the size of a value, and the key is the row's number."""

    def __init__(self, spark: SparkSession, kind: str, folder: Path) -> None:
        self._spark = spark
        self._format = kind
        self._folder = folder
        self._queries = 0

    def version(self) -> str:
        return str(self._spark.version)

    def batch_read(self, options: Options) -> float:
        """Return the seconds to read all rows and drop them."""
        frame = self._spark.read.format(self._format).options(**options).load()
        begin = time.monotonic()
        frame.write.format("noop").mode("overwrite").save()
        return time.monotonic() - begin

    def batch_write(self, rows: int, bytes: int, options: Options) -> float:
        """Return the seconds to write this number of rows."""
        frame = _records(self._spark.range(0, rows, 1, 2).withColumnRenamed("id", "value"), bytes)
        begin = time.monotonic()
        frame.write.format(self._format).options(**options).mode("append").save()
        return time.monotonic() - begin

    def read_stream(self, options: Options, rows: int, batches: int) -> list[dict[str, Any]]:
        """Return the progress of micro-batches that read and drop this number of rows each."""
        limited = options | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows)}
        frame = self._spark.readStream.format(self._format).options(**limited).load()
        return self._run(frame, "noop", {}, rows, batches)

    def write_stream(
        self, options: Options, rows: int, bytes: int, keys: bool, batches: int
    ) -> list[dict[str, Any]]:
        """Return the progress of micro-batches that write this number of new rows each."""
        frame = _records(self._generated(rows), bytes)
        return self._run(frame if keys else frame.drop("key"), self._format, options, rows, batches)

    def no_stream(self, rows: int, bytes: int, batches: int) -> list[dict[str, Any]]:
        """Return the progress of micro-batches that drop new rows: Spark's own part of the time."""
        return self._run(_records(self._generated(rows), bytes), "noop", {}, rows, batches)

    def _generated(self, rows: int) -> DataFrame:
        reader = self._spark.readStream.format("rate-micro-batch")
        options = {"rowsPerBatch": rows, "numPartitions": 2, "startTimestamp": 0}
        return reader.options(**options).load()

    def _run(
        self, frame: DataFrame, sink: str, options: Options, rows: int, batches: int
    ) -> list[dict[str, Any]]:
        self._queries += 1
        checkpoint = self._folder / f"checkpoint-{self._queries}"
        writer = frame.writeStream.format(sink).options(**options)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            _wait(query, batches)
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
        found = [json.loads(progress.json) for progress in query.recentProgress]
        # Spark rounds the share of each partition, so a batch may have one or two rows less.
        full = [progress for progress in found if progress["numInputRows"] >= rows - 2]
        return full[:batches]


def _records(frame: DataFrame, bytes: int) -> DataFrame:
    """Return rows with keys and values. A key is the row's number. A value has about this number of
    bytes and ends with the row's number. Making the rows must take almost no time."""
    number = col("value").cast("string")
    filling = lit("x" * (bytes - NUMBER_BYTES))
    return frame.select(number.alias("key"), concat(filling, number).alias("value"))


def _wait(query: StreamingQuery, batches: int) -> None:
    """Wait until this number of batches is done. Raises the exception that ended the query early,
    or TimeoutError."""
    deadline = time.monotonic() + STREAM_DEADLINE_S
    while time.monotonic() < deadline:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] >= batches:
            return
        if not query.isActive:
            query.awaitTermination()
        time.sleep(POLL_S)
    raise TimeoutError(f"{batches} batches are not done after {STREAM_DEADLINE_S:g} s")


def main() -> None:
    """Run the program."""
    kind, jars, folder = sys.argv[1:]
    builder = SparkSession.builder.config("spark.local.dir", folder)
    if jars:
        builder = builder.config("spark.jars", jars)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    program = Program(builder.getOrCreate(), kind, Path(folder))
    operations = [name for name in dir(program) if not name.startswith("_")]
    serve({name: getattr(program, name) for name in operations})


if __name__ == "__main__":
    main()
