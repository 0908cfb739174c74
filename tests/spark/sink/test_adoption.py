"""A new query takes over the sink of a query that still runs, and begins at the end of the sink's
last batch."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_client.spark.sink.stream_writer import CommitMessage, StreamWriter
from oncelog_client.spark.source.readers import stream_reader
from oncelog_client.spark.source.stream_reader import StreamReader
from tests.spark.topics import Topics

ALL = ReadMaxRows(1 << 60)


class Copy:
    """A query that copies a topic, called as Spark calls it, with its checkpoint. The sink has the
    name of the target."""

    def __init__(
        self, topics: Topics, name: str, kind: CommitKind, checkpoint: Path, start: str
    ) -> None:
        self.servers = {"kafka.bootstrap.servers": topics.bootstrap}
        self.sink = {
            "sinkId": f"{name}-copy",
            "topic": f"{name}-copy",
            "sinkProtocol": kind,
            "onNewCheckpoint": "adopt",
            "checkpointLocation": str(checkpoint),
        }
        self.query_id = checkpoint.name
        self.offsets = checkpoint / "offsets"
        self.offsets.mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))
        given = {**self.servers, "subscribe": name, "startingOffsets": start}
        self.reader: StreamReader = stream_reader(
            Options(given), StructType().add("value", "binary")
        )
        self.position = self.reader.initialOffset()

    def note(self, batch_id: int, limit: ReadLimit = ALL) -> None:
        """Write the end of the next batch to the checkpoint."""
        self.before = self.position
        self.position = json.loads(json.dumps(self.reader.latestOffset(self.before, limit)))
        (self.offsets / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(self.position)}")

    def write(self, batch_id: int) -> TaskMessage:
        """Plan the batch, in a new process of the driver, and write the rows."""
        driver._generations.clear()
        writer = pickle.loads(pickle.dumps(self._writer()))
        rows = (
            batch
            for partition in self.reader.partitions(self.before, self.position)
            for batch in self.reader.read(partition)
        )
        attempt = Attempt(0, self.query_id, batch_id)
        return task_writer.write(writer._plan, writer._options, attempt, rows)

    def commit(self, message: TaskMessage, batch_id: int) -> None:
        self._writer().commit([CommitMessage(message)], batch_id)

    def run(self, batch_id: int, limit: ReadLimit = ALL) -> None:
        self.note(batch_id, limit)
        self.commit(self.write(batch_id), batch_id)

    def _writer(self) -> StreamWriter:
        return StreamWriter(sink_options(Options({**self.servers, **self.sink}), streaming=True))


@pytest.mark.parametrize("kind", CommitKind)
@pytest.mark.parametrize("limit", [ALL, ReadAllAvailable()], ids=["batches", "once"])
def test_a_batch_that_the_old_query_commits_after_the_start_is_not_written_twice(
    topics: Topics, name: str, tmp_path: Path, kind: CommitKind, limit: ReadLimit
) -> None:
    """With `Trigger.Once` the first batch of the new query has rows."""
    topics.create(name, partitions=1)
    target = topics.create(f"{name}-copy", partitions=1)
    topics.append(name, [b"a", b"b"])
    old = Copy(topics, name, kind, tmp_path / "old", "earliest")
    old.run(0)
    old.run(1)
    topics.append(name, [b"c", b"d"])
    old.note(2)
    written = old.write(2)
    new = Copy(topics, name, kind, tmp_path / "new", f"sink:{target}")
    new.note(0, limit)
    old.commit(written, 2)
    # A restart with the same checkpoint does not help.
    for _ in range(2):
        with pytest.raises(SinkError, match="start this query again with an empty") as refused:
            new.write(0)
        assert refused.value.reason is Reason.OLD_START
    again = Copy(topics, name, kind, tmp_path / "again", f"sink:{target}")
    again.note(0, limit)
    # The driver dies before batch 0 is committed, and starts again.
    again.write(0)
    again.commit(again.write(0), 0)
    topics.append(name, [b"e"])
    again.run(1)
    assert topics.values(target) == [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("kind", CommitKind)
def test_a_new_query_that_fences_the_old_query_in_time_continues(
    topics: Topics, name: str, tmp_path: Path, kind: CommitKind
) -> None:
    topics.create(name, partitions=1)
    target = topics.create(f"{name}-copy", partitions=1)
    topics.append(name, [b"a", b"b"])
    old = Copy(topics, name, kind, tmp_path / "old", "earliest")
    old.run(0)
    old.run(1)
    topics.append(name, [b"c", b"d"])
    old.note(2)
    written = old.write(2)
    new = Copy(topics, name, kind, tmp_path / "new", f"sink:{target}")
    new.run(0)
    with pytest.raises(SinkError) as refused:
        old.commit(written, 2)
    assert refused.value.reason is Reason.NEW_CHECKPOINT
    new.run(1)
    assert topics.values(target) == [b"a", b"b", b"c", b"d"]
