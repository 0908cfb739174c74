"""A program for PySpark 4.0.0 with the official connector. Each call runs one operation: a read, a
write or a query.

Keys and values are text with one character per byte (latin-1), in calls and in responses.
Arguments: the connector's jars, and a folder for Spark's files.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_millis
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.connector.process import serve

Options = dict[str, str]

FORMAT = "kafka"
SINK_TYPES = {
    "topic": "string",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "partition": "int",
}
SETTINGS = {
    "spark.app.name": "official-connector",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "WARN",
    "spark.master": "local[2]",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Program:
    """The operations. `start` gives a query its name; the other calls use that name."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, StreamingQuery] = {}

    def version(self) -> str:
        return self._spark.version

    def schema(self, options: Options) -> list[list[str]]:
        """Return the names and types of a read's columns."""
        frame = self._spark.read.format(FORMAT).options(**options).load()
        return [[name, kind] for name, kind in frame.dtypes]

    def read(self, options: Options) -> list[dict[str, Any]]:
        """Return all rows, in no particular order."""
        return _rows(self._spark.read.format(FORMAT).options(**options).load())

    def parts(self, options: Options) -> int:
        """Return the number of Spark partitions of a read."""
        return self._spark.read.format(FORMAT).options(**options).load().rdd.getNumPartitions()

    def write(self, rows: list[dict[str, Any]], options: Options) -> None:
        """Append rows, each a mapping of the same columns."""
        names = [name for name in SINK_TYPES if name in rows[0]]
        data = [tuple(_given(name, row[name]) for name in names) for row in rows]
        schema = ", ".join(f"{name} {SINK_TYPES[name]}" for name in names)
        frame = self._spark.createDataFrame(data, schema)
        frame.write.format(FORMAT).options(**options).save()

    def start(
        self, name: str, source: Options, sink: Options, checkpoint: str, available_now: bool
    ) -> None:
        """Start a query that copies records. With AvailableNow the query ends, otherwise `stop`
        ends it."""
        frame = self._spark.readStream.format(FORMAT).options(**source).load()
        columns = [column for column in ("key", "value", "headers") if column in frame.columns]
        writer = frame.select(*columns).writeStream.format(FORMAT).options(**sink)
        trigger = writer.trigger(availableNow=True) if available_now else writer
        located = trigger.option("checkpointLocation", checkpoint)
        self._queries[name] = located.queryName(name).start()

    def catch_up(self, name: str) -> None:
        """Wait until the query has processed all records. Raises the exception that ended it."""
        self._queries[name].processAllAvailable()

    def end(self, name: str) -> None:
        """Wait until a query with AvailableNow has ended. Raises the exception that ended it
        early."""
        self._queries[name].awaitTermination()

    def stop(self, name: str) -> None:
        """Stop the query, and forget it."""
        self._queries.pop(name).stop()

    def progress(self, name: str) -> list[dict[str, Any]]:
        """Return the progress of the query's recent micro-batches, oldest first."""
        return [json.loads(progress.json) for progress in self._queries[name].recentProgress]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON values; `timestamp` in ms since the epoch."""
    if "timestamp" in frame.columns:
        frame = frame.withColumn("timestamp", unix_millis("timestamp"))
    return [_taken(row.asDict(recursive=True)) for row in frame.collect()]


def _taken(value: Any) -> Any:
    """Return a cell as a JSON value."""
    match value:
        case bytes() | bytearray():
            return bytes(value).decode("latin-1")
        case dict():
            return {name: _taken(item) for name, item in value.items()}
        case list():
            return [_taken(item) for item in value]
        case _:
            return value


def _given(column: str, value: Any) -> Any:
    """Return a cell for a column of the sink; headers are pairs of name and value."""
    match column:
        case "key" | "value":
            return _bytes(value)
        case "headers":
            return None if value is None else [(name, _bytes(item)) for name, item in value]
        case _:
            return value


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def main() -> None:
    """Run the program."""
    jars, folder = sys.argv[1:]
    builder = SparkSession.builder.config("spark.jars", jars).config("spark.local.dir", folder)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    program = Program(builder.getOrCreate())
    operations = [name for name in dir(program) if not name.startswith("_")]
    serve({name: getattr(program, name) for name in operations})


if __name__ == "__main__":
    main()
