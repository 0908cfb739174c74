"""`df.write.format("oncelog").mode("append")`, also inside foreachBatch.

With txnAppId and txnVersion, which correspond to the query id and batch number of a stream, each
version is written once, even if the write is repeated. Without txnAppId and txnVersion a write is
atomic, but a repeated write writes its rows again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.taskcontext import TaskContext

from oncelog_client.spark.prompt_worker import PromptWorker
from oncelog_client.spark.sink.protocol.messages import Intent, Plan
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions

from . import driver, task_writer
from .stream_writer import CommitMessage, attempt_of, tasks_of

Messages = list[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """The writer. Spark pickles it for the tasks, and commits with a copy."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._plan: Plan | None = None
        self._worker = PromptWorker()

    def __getstate__(self) -> dict[str, Any]:
        if self._plan is None:
            self._plan = self._planned()
        return dict(self.__dict__)

    def _planned(self) -> Plan:
        options = self._options
        kind = driver.commit_kind(options)
        if options.sink_id is None:
            driver.check_timeout(options)
            # This sink id is used only once, and no state is stored: all transactions with this
            # sink id belong to this write.
            return Plan(f"spark-write-{uuid.uuid4()}", kind, 1, None, None, 0)
        app_id, version = options.txn_app_id, options.txn_version
        return driver.plan(options, Intent(options.sink_id, kind, app_id, version, options.adopts))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> CommitMessage:
        assert self._plan is not None
        return CommitMessage(
            task_writer.write(self._plan, self._options, attempt_of(TaskContext.get()), iterator)
        )

    def commit(self, messages: Messages) -> None:
        driver.commit(self._options, tasks_of(messages), self._options.txn_version, None)

    def abort(self, messages: Messages) -> None:
        driver.abort(self._options, tasks_of(messages), self._options.txn_version)
