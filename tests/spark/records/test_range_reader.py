"""A range of a partition becomes Arrow batches: exactly what is visible in it, up to its end."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog_client import Admin, NewTopic, Producer, TopicPartition
from oncelog_client.config import consumer_config
from oncelog_client.spark.source.range_reader import DataLost, ReadSettings, read_range
from tests.broker import Oncelog

ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("oncelog")) as running:
        yield running


@pytest.fixture
def settings(broker: Oncelog) -> ReadSettings:
    consumer = consumer_config(broker.address, {"isolation_level": "read_committed"})
    return ReadSettings(consumer=consumer)


def offsets_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


async def test_reads_a_range(broker: Oncelog, settings: ReadSettings) -> None:
    partition = TopicPartition("plain", 0)
    async with Admin(broker.address) as admin, Producer(broker.address) as producer:
        await admin.create_topics([NewTopic("plain", 1, 1)])
        for number in range(3000):
            await producer.send("plain", b"v%d" % number, b"k", headers=[("h", b"1")])
        await producer.flush()
    table = pa.Table.from_batches(list(read_range(settings, partition, 5, 2990, ALL)))
    assert table.column("offset").to_pylist() == list(range(5, 2990))
    assert table.column("value").to_pylist() == [b"v%d" % n for n in range(5, 2990)]


async def test_lost(broker: Oncelog, settings: ReadSettings) -> None:
    with pytest.raises(DataLost, match="offset 4000 is not there, the log begins at 0"):
        offsets_of(read_range(settings, TopicPartition("plain", 0), 4000, 4001, ["offset"]))
