"""A topic that is deleted and created again counts as a data loss once. The next batch reads the
new topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from pyspark.sql.types import StructType

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.source import logs
from oncelog_client.spark.source.plan.data_loss import DataLossError
from oncelog_client.spark.source.readers import stream_reader
from oncelog_client.spark.source.stream_reader import StreamReader
from oncelog_client.values import TopicPartition

VALUES = StructType().add("value", "binary")
TOPIC, OTHER = "t", "u"


class Cluster:
    """A catalogue without a broker. `topics`: for each topic, its id and the number of records in
    its only partition."""

    def __init__(self) -> None:
        self.topics = {TOPIC: (b"1" * 16, 2), OTHER: (b"9" * 16, 1)}

    def recreate(self, id: bytes, records: int) -> None:
        self.topics[TOPIC] = (id * 16, records)

    async def partitions(self, *, max_age_ms: float = 0) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(name, 0) for name in self.topics)

    async def ends(
        self, *, read_committed: bool, max_age_ms: float = 0
    ) -> dict[TopicPartition, int]:
        return {TopicPartition(name, 0): end for name, (_, end) in self.topics.items()}

    async def firsts(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def high_watermarks(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        ends = await self.ends(read_committed=False)
        return {partition: ends[partition] for partition in partitions}

    def topic_ids(self) -> dict[str, bytes]:
        return {name: id for name, (id, _) in self.topics.items()}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    def ask(options: object, work: Callable[[Cluster], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run(work(found))

    monkeypatch.setattr(logs, "ask", ask)
    return found


def reader(*, fails: bool) -> StreamReader:
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:9",
        "subscribe": f"{TOPIC},{OTHER}",
        "startingOffsets": "earliest",
        "failOnDataLoss": str(fails).lower(),
        "fetchOffset.numRetries": "1",
    }
    return stream_reader(Options(options), VALUES)


def at(offset: int) -> dict[str, Any]:
    return {TOPIC: {"0": offset}, OTHER: {"0": 1}}


def next_end(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def test_a_recreated_topic_counts_as_new_once(cluster: Cluster) -> None:
    stream = reader(fails=False)
    assert next_end(stream, next_end(stream, stream.initialOffset())) == at(2)
    for id, records in ((b"2", 5), (b"3", 7)):
        cluster.recreate(id, records)
        # One batch only stores position 0 in the checkpoint, the next batch has all records.
        assert next_end(stream, at(2)) == at(0)
        assert next_end(stream, at(0)) == at(records)
        # After that, the recreated topic is like any other topic.
        assert next_end(stream, at(records)) == at(records)
        cluster.recreate(id, records + 1)
        assert next_end(stream, at(records)) == at(records + 1)


def test_a_recreated_topic_is_an_error_with_fail_on_data_loss(cluster: Cluster) -> None:
    stream = reader(fails=True)
    next_end(stream, next_end(stream, stream.initialOffset()))
    assert next_end(stream, at(2)) == at(2)
    cluster.recreate(b"2", 5)
    with pytest.raises(DataLossError, match=f"topic {TOPIC}, partition 0 was deleted and created"):
        next_end(stream, at(2))


def test_a_task_gets_the_topic_id_from_the_planning_of_its_offsets(cluster: Cluster) -> None:
    stream = reader(fails=False)
    start = next_end(stream, next_end(stream, stream.initialOffset()))
    cluster.topics[TOPIC] = (b"1" * 16, 4)
    end = next_end(stream, start)
    # A topic may be created again before the tasks are planned.
    cluster.recreate(b"2", 8)
    (task,) = stream.partitions(start, end)
    assert task.value == ((TopicPartition(TOPIC, 0), 2, 4), b"1" * 16)
    # A restarted query knows only the present id.
    (task,) = reader(fails=False).partitions(start, end)
    assert task.value.topic_id == b"2" * 16
