"""The stream writer as Spark uses it. Spark creates two writers for each batch: one plans and is
pickled for the tasks, the other commits."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.taskcontext import TaskContext

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_client.spark.sink.stream_writer import StreamWriter, attempt_of
from tests.harness.broker import Oncelog
from tests.spark.record_commit.query import Query


def writer(broker: Oncelog, name: str, checkpoint: Path, **more: str) -> StreamWriter:
    given = {
        "kafka.bootstrap.servers": broker.address,
        "sinkId": name,
        "topic": name,
        "checkpointLocation": str(checkpoint),
        **more,
    }
    return StreamWriter(sink_options(Options(given), streaming=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the checkpoint of query q-9, at batch 3."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"q-9"}')
    (tmp_path / "offsets" / "3").write_text("v1\n{}\n{}")
    return tmp_path


def test_the_pickled_writer_plans_once_and_the_other_writer_does_not_plan(
    broker: Oncelog, name: str, folder: Path
) -> None:
    planned = writer(broker, name, folder)
    plans = [pickle.loads(pickle.dumps(planned))._plan for _ in range(2)]
    # A writer that Spark creates for the commit must not fence the planning writer.
    fresh = writer(broker, name, folder)
    assert fresh._plan is None
    assert plans[0] == plans[1]
    assert (plans[0].generation, plans[0].query_id, plans[0].batch_id) == (1, "q-9", None)


def test_the_checkpoint_shows_if_a_query_is_new(
    broker: Oncelog, query: Query, folder: Path
) -> None:
    assert query.batch(0)
    heir = writer(broker, query.sink_id, folder, onNewCheckpoint="adopt")
    with pytest.raises(SinkError, match="q-9 is at batch 3, so the query is not new") as refused:
        pickle.dumps(heir)
    assert refused.value.reason is Reason.NEW_CHECKPOINT
    (folder / "offsets" / "3").rename(folder / "offsets" / "0")
    assert pickle.loads(pickle.dumps(heir))._plan.owner == "q-9"


class Context(TaskContext):
    """Spark's information for a task."""

    def __new__(cls, **properties: str) -> Context:
        return object.__new__(cls)

    def __init__(self, **properties: str) -> None:
        self._partitionId = 5
        self._localProperties: Any = properties


@pytest.mark.parametrize(
    ("properties", "attempt"),
    [
        ({"sql.streaming.queryId": "q", "streaming.sql.batchId": "7"}, Attempt(5, "q", 7)),
        ({"sql.streaming.queryId": "q"}, Attempt(5, "q", None)),
        ({"streaming.sql.batchId": "seven"}, Attempt(5, None, None)),
        ({}, Attempt(5)),
    ],
)
def test_a_property_that_spark_does_not_pass_is_unknown(
    properties: dict[str, str], attempt: Attempt
) -> None:
    assert attempt_of(Context(**properties)) == attempt
    assert attempt_of(None) == Attempt(-1)
