"""The writer of `writeStream.format("oncelog")`.

Spark makes two writers for each batch, in two processes. Spark pickles the first writer for the
tasks, and makes the second writer just before the commit. Only the first writer plans, when it is
pickled. The constructor must not plan, because the second writer would fence the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.taskcontext import TaskContext

from oncelog_client.spark.prompt_worker import PromptWorker
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import Intent, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import SinkError
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions

from . import driver, task_writer
from .checkpoint import noted_batch, query_id, sink_starts, source_end

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class CommitMessage(WriterCommitMessage):
    """The message that Spark takes from a task to the commit."""

    task: TaskMessage


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._plan: Plan | None = None
        self._worker = PromptWorker()

    def __getstate__(self) -> dict[str, Any]:
        """Plan the batch (step 0), and return the attributes to pickle. Spark pickles a writer
        twice in a row, so the second call returns the same plan."""
        if self._plan is None:
            self._plan = self._planned()
        return dict(self.__dict__)

    def _planned(self) -> Plan:
        options = self._options
        query = query_id(options.checkpoint_location)
        sink_id = options.sink_id
        if sink_id is None:
            if query is None:
                raise SinkError(
                    "option sinkId is needed: the name of this sink, the same after every restart."
                    " (It can be derived from the query's id only if checkpointLocation is given by"
                    " .option(...) on the writer, as a path that the driver's Python can read.)"
                )
            sink_id = f"spark-{query}"
        kind = driver.commit_kind(options)
        noted = noted_batch(options.checkpoint_location)
        starts = sink_starts(options.checkpoint_location, sink_id) if noted == 0 else ()
        intent = Intent(
            sink_id, kind, query, adopts=options.adopts, noted_batch=noted, sink_starts=starts
        )
        return driver.plan(options, intent)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> CommitMessage:
        assert self._plan is not None
        return CommitMessage(
            task_writer.write(self._plan, self._options, attempt_of(TaskContext.get()), iterator)
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        end = source_end(self._options.checkpoint_location, batchId)
        driver.commit(self._options, tasks_of(messages), batchId, end)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        driver.abort(self._options, tasks_of(messages), batchId)


def tasks_of(messages: list[WriterCommitMessage | None]) -> list[TaskMessage | None]:
    return [message.task if isinstance(message, CommitMessage) else None for message in messages]


def attempt_of(context: TaskContext | None) -> Attempt:
    """Read the properties of a task. Spark does not promise their names, so any of them may be
    missing."""
    if context is None:
        return Attempt(-1)
    batch = context.getLocalProperty(BATCH_ID)
    return Attempt(
        context.partitionId(),
        context.getLocalProperty(QUERY_ID),
        int(batch) if batch is not None and batch.isdecimal() else None,
    )
