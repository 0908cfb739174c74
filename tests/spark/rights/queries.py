"""Queries without Spark. The test's process makes the calls that Spark makes in its processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow
from pyspark.sql.types import StructType

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent, TaskMessage
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions, sink_options
from oncelog_client.spark.source.readers import batch_reader, stream_reader

QUERY = "q-1"
VALUES = StructType().add("value", "binary")


@dataclass(frozen=True)
class Sink:
    """A query that writes to the topic `name` with the sink id `name`. `user`: the options of its
    user."""

    name: str
    kind: CommitKind
    user: Mapping[str, str]

    def having(self, **more: str) -> SinkOptions:
        given = {**self.user, "sinkId": self.name, "topic": self.name, "sinkProtocol": self.kind}
        named = {name.replace("_", "."): value for name, value in more.items()}
        return sink_options(Options({**given, **named}), streaming=True)

    def write(
        self, batch_id: int, *, commits: bool = True, source_end: str | None = None
    ) -> list[TaskMessage]:
        """Plan a batch and write its two rows `<batch>/<task>`. With `commits`, commit it."""
        options = self.having()
        plan = driver.plan(options, Intent(self.name, driver.commit_kind(options), QUERY))
        messages = [
            task_writer.write(
                plan, options, Attempt(task, QUERY, batch_id), rows(f"{batch_id}/{task}")
            )
            for task in range(2)
        ]
        if commits:
            assert driver.commit(options, messages, batch_id, source_end)
        return messages

    def abort(self, messages: list[TaskMessage], batch_id: int) -> None:
        driver.abort(self.having(), [*messages], batch_id)


def rows(*values: str) -> Iterator[pyarrow.RecordBatch]:
    yield pyarrow.RecordBatch.from_pylist([{"value": value} for value in values])


def read_batch(user: Mapping[str, str], topic: str) -> list[bytes]:
    """Return the values that a batch read finds."""
    reader = batch_reader(Options({**user, "subscribe": topic}), VALUES)
    return [
        value
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for value in batch.column(0).to_pylist()
    ]


def read_stream(
    user: Mapping[str, str], topic: str, group: str | None = None, start: str = "earliest"
) -> list[bytes]:
    """Return the values that a micro-batch of a stream finds. Then report the end of the batch, as
    Spark does, so that the source commits it to the group."""
    given = {**user, "subscribe": topic, "startingOffsets": start}
    if group is not None:
        given["commitOffsetsToGroup"] = group
    reader = stream_reader(Options(given), VALUES)
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    end = reader.latestOffset(first, limit)
    found = [
        value
        for partition in reader.partitions(first, end)
        for batch in reader.read(partition)
        for value in batch.column(0).to_pylist()
    ]
    reader.commit(end)
    return found
