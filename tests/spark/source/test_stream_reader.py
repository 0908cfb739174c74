"""The reader of a stream, called as Spark calls it, for cases that need exact timing."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from oncelog_client import KafkaError
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.source.plan.data_loss import DataLossError
from oncelog_client.spark.source.readers import stream_reader
from oncelog_client.spark.source.stream_reader import StreamReader
from tests.harness.broker import Oncelog
from tests.spark.source.changing import delete
from tests.spark.source.reading import PATIENCE
from tests.spark.topics import Topics

VALUES = StructType().add("value", "binary")


def reader_of(log: Topics, topic: str, **more: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": topic, **PATIENCE, **more}
    return stream_reader(Options({"startingOffsets": "earliest", **options}), VALUES)


def next_end(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """Return the next end after a round trip through JSON, as in Spark."""
    end = reader.latestOffset(json.loads(json.dumps(start)), reader.getDefaultReadLimit())
    found: dict[str, Any] = json.loads(json.dumps(end))
    return found


def read_to_the_end(reader: StreamReader) -> dict[str, Any]:
    start = next_end(reader, reader.initialOffset())
    while (end := next_end(reader, start)) != start:
        start = end
    return end


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_that_is_recreated_at_once_is_noticed(
    topics: Topics, name: str, fails: str
) -> None:
    topics.create(name, partitions=1)
    topics.append(name, [b"a", b"b"])
    reader = reader_of(topics, name, failOnDataLoss=fails)
    position = read_to_the_end(reader)
    delete(topics, name)
    topics.create(name, partitions=1)
    # The offsets alone do not distinguish the new topic from the old one.
    topics.append(name, [b"c", b"d", b"e"])
    if fails == "true":
        message = f"topic {name}, partition 0 was deleted and created again: the old log was read"
        with pytest.raises(DataLossError, match=f"{message} up to offset 2, the new log ends at"):
            next_end(reader, position)
        return
    assert next_end(reader, position) == {name: {"0": 0}}
    assert next_end(reader, {name: {"0": 0}}) == {name: {"0": 3}}
    (partition,) = reader.partitions({name: {"0": 0}}, {name: {"0": 3}})
    rows = [row for batch in reader.read(partition) for row in batch.column(0).to_pylist()]
    assert rows == [b"c", b"d", b"e"]


def test_available_now_does_not_wait_for_the_records_of_a_deleted_topic(
    topics: Topics, name: str
) -> None:
    topics.create(name, partitions=1)
    topics.append(name, [b"a", b"b"])
    reader = reader_of(topics, name)
    reader.prepareForTriggerAvailableNow()
    start = next_end(reader, reader.initialOffset())
    end = next_end(reader, start)
    delete(topics, name)
    topics.create(name, partitions=1)
    with pytest.raises(DataLossError, match=f"topic {name}, partition 0 was to be read up to"):
        reader.partitions(start, end)


def test_an_offset_without_new_records_keeps_its_text(topics: Topics, name: str) -> None:
    """Spark compares the texts, and would run an empty batch."""
    topics.create(name, partitions=1)
    topics.append(name, [b"a", b"b"])
    reader = reader_of(topics, name)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end == {name: {"0": 2}, ":start": {name: {"0": 0}}}
    assert next_end(reader, end) == end
    topics.append(name, [b"c"])
    assert next_end(reader, end) == {name: {"0": 3}}


def is_answered(reader: StreamReader, position: dict[str, Any]) -> bool:
    """Return True if the broker responds within the reader's timeout, without new records."""
    try:
        return next_end(reader, position) == position
    except KafkaError:
        return False


def test_the_reader_waits_for_the_broker_until_its_timeout(
    fresh_broker: Oncelog, name: str
) -> None:
    topics = Topics(fresh_broker.address)
    topics.create(name, partitions=1)
    reader = reader_of(topics, name)
    position = read_to_the_end(reader)
    quick = {"kafka.default.api.timeout.ms": "200", "kafka.request.timeout.ms": "200"}
    impatient = reader_of(topics, name, **quick)
    while not is_answered(impatient, position):
        # The computer may pause for longer than the timeout of this reader.
        pass
    fresh_broker.kill()
    begun = time.monotonic()
    with pytest.raises(KafkaError):
        next_end(impatient, position)
    # Other readers wait for a minute, but this reader does not.
    assert time.monotonic() - begun < 30
    back = threading.Thread(target=fresh_broker.start)
    back.start()
    assert next_end(reader, position) == position
    back.join()
