"""A sink keeps the end offsets that a batch has read from its sources (the source end), if they fit
into the state of the sink. Otherwise a message gives the reason."""

from __future__ import annotations

import json
import logging
from random import Random

import pyarrow
import pytest

from oncelog_client.spark.offsets.offsets import AtSink, from_json
from oncelog_client.spark.offsets.source_end import NoSourceEnd
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_client.spark.source import logs
from oncelog_client.spark.source.offset_specs import resolve
from oncelog_client.spark.source.plan.source_options import source_options
from oncelog_client.values import TopicPartition
from tests.harness.broker import Oncelog
from tests.spark.topics import Topics

FEW, MANY = 400, 1000


def end_of(partitions: int) -> dict[str, dict[str, int]]:
    """Return random offsets, which compress badly."""
    offsets = Random(partitions)
    return {
        "purchases": {
            str(partition): offsets.randrange(10**9, 10**10) for partition in range(partitions)
        }
    }


class Sink:
    """Batches of one query. This process plans and commits them."""

    def __init__(self, broker: Oncelog, name: str, kind: CommitKind) -> None:
        self.servers = {"kafka.bootstrap.servers": broker.address}
        given = {**self.servers, "sinkId": name, "topic": name, "sinkProtocol": kind}
        self.options = sink_options(Options(given), streaming=True)
        self.intent = Intent(name, kind, query_id="q")

    def batch(self, batch_id: int, partitions: int) -> None:
        plan = driver.plan(self.options, self.intent)
        rows = pyarrow.RecordBatch.from_pylist([{"value": "v"}])
        message = task_writer.write(plan, self.options, Attempt(0, "q", batch_id), iter([rows]))
        end = json.dumps(end_of(partitions), separators=(",", ":"))
        assert driver.commit(self.options, [message], batch_id, end)

    def start(self) -> dict[TopicPartition, int]:
        """Return the start offsets of a source with `startingOffsets=sink:…`."""
        name = self.intent.sink_id
        options = source_options(Options({**self.servers, "subscribe": name}), streaming=True)
        ends = dict.fromkeys(from_json(end_of(FEW)) or {}, 10**15)
        return logs.ask(
            options,
            lambda catalogue: resolve(catalogue, AtSink(name), ends, options, starting=True),
        )


@pytest.mark.parametrize("kind", CommitKind)
def test_a_source_end_of_400_partitions_is_kept(
    broker: Oncelog, topics: Topics, name: str, kind: CommitKind
) -> None:
    sink = Sink(broker, topics.create(name), kind)
    sink.batch(0, FEW)
    assert sink.start() == from_json(end_of(FEW))
    # A later plan begins the next generation of the sink, and keeps the source end.
    driver._generations.clear()
    driver.plan(sink.options, sink.intent)
    assert sink.start() == from_json(end_of(FEW))


def test_a_source_end_that_is_too_long_is_reported_once_with_its_cause(
    broker: Oncelog, topics: Topics, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(broker, topics.create(name), CommitKind.GROUP)
    with caplog.at_level(logging.WARNING, driver.__name__):
        for batch_id in range(2):
            sink.batch(batch_id, MANY)
    (said,) = [message for message in caplog.messages if "is not stored" in message]
    assert f"sink {name}: the source end of the batch is not stored" in said
    assert "4096 bytes" in said
    with pytest.raises(NoSourceEnd, match="more than the 4096 bytes") as refused:
        sink.start()
    assert "checkpointLocation" not in str(refused.value)
    sink.batch(2, FEW)
    assert sink.start() == from_json(end_of(FEW))


def test_a_commit_by_record_keeps_a_source_end_of_any_length(
    broker: Oncelog, topics: Topics, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(broker, topics.create(name), CommitKind.RECORD)
    with caplog.at_level(logging.WARNING, driver.__name__):
        sink.batch(0, MANY)
    assert not any("is not stored" in message for message in caplog.messages)
    wanted = from_json(end_of(MANY)) or {}
    assert sink.start() == {place: end for place, end in wanted.items() if place.partition < FEW}
