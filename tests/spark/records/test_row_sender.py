"""A reader gets the rows of a task as the task wrote them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from oncelog_client.core.partitioner import partition_for_key
from oncelog_client.errors import KafkaError, RecordTooLargeError
from oncelog_client.spark.records.arrow_encode import RowError
from oncelog_client.spark.sink.row_sender import RowSender
from oncelog_client.spark.sink.task_producer import TaskProducer
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S, read_values
from tests.harness.driving import damage


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Oncelog(tmp_path_factory.mktemp("oncelog")) as running:
        yield running.address


async def new_topic(address: str, partitions: int = 1) -> str:
    name = f"s-{uuid.uuid4().hex[:12]}"
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1)])
    return name


def rows(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([str(number) for number in range(start, end)], pa.string()),
            "value": pa.array([f"{number:050d}" for number in range(start, end)], pa.string()),
        }
    )


async def test_all_rows_of_many_batches_are_written(
    address: str,
) -> None:
    topic = await new_topic(address, 3)
    async with TaskProducer(address, transactional_id=topic, buffer_memory=100_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        sender = RowSender(producer, topic, 2_000)
        for start in range(0, 20_000, 1_000):
            await sender.send(rows(start, start + 1_000))
        await producer.commit_transaction()
    values = [value or b"" for value in await read_values(address, topic, committed=True)]
    assert sorted(values) == [b"%050d" % number for number in range(20_000)]


async def test_rows_are_written_to_the_topics_of_the_column(address: str) -> None:
    topics = [await new_topic(address), await new_topic(address, 2)]
    async with TaskProducer(address) as producer:
        sender = RowSender(producer)
        for number in range(3):
            batch = rows(number, number + 2).append_column("topic", pa.array(topics))
            await sender.send(batch)
        await producer.flush()
    for number, topic in enumerate(topics):
        found = await read_values(address, topic, committed=True)
        assert sorted(map(int, filter(None, found))) == [number, number + 1, number + 2]


async def test_rows_are_written_to_partitions_that_were_added_meanwhile(address: str) -> None:
    topic = await new_topic(address)
    given = [1, 0, None]
    batch = rows(0, 3).append_column("partition", pa.array(given, pa.int32()))
    async with TaskProducer(address) as producer:
        await RowSender(producer, topic).send(rows(3, 4))
        async with Admin(address) as admin:
            await admin.create_partitions({topic: 2})
        # The worker's next task uses the same producer.
        sender = RowSender(producer, topic)
        await sender.send(batch)
        await producer.flush()
        other = await new_topic(address)
        with pytest.raises(RowError, match=f"partition 1, but topic {other} has 1 partitions"):
            await RowSender(producer, other).send(batch)
    found = await read_values(address, topic, committed=True)
    assert sorted(map(int, filter(None, found))) == [0, 1, 2, 3]


async def test_rows_without_a_key_avoid_an_offline_partition(tmp_path: Path) -> None:
    """Batches are small, so that each row without a key may get another partition. A row with a
    key keeps its partition."""
    broker = Oncelog(tmp_path, QUICK)
    with broker:
        topic = await new_topic(broker.address, 3)
        async with Producer(broker.address) as producer:
            await producer.send_and_wait(topic, b"", partition=1)
    damage(broker.data / f"{topic}-1" / f"{0:020}.log", 16)  # 16: the magic byte
    keys = [None] * 60 + [key for key in map(str, range(20)) if partition_of(key) != 1]
    values = [str(number) for number in range(len(keys))]
    batch = pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.string()), "value": values})
    with broker:
        async with TaskProducer(broker.address, transactional_id=topic) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await RowSender(producer, topic, 50).send(batch)
            async with asyncio.timeout(DEADLINE_S):
                await producer.commit_transaction()
        async with Consumer(broker.address, isolation_level="read_committed") as consumer:
            places = [TopicPartition(topic, number) for number in (0, 2)]
            await consumer.assign(places)
            await consumer.seek_to_beginning()
            found = [record async for record in taking(consumer, len(values))]
    assert sorted(int(record.value or b"") for record in found) == [*range(len(values))]
    assert {record.partition for record in found if record.key is None} == {0, 2}


def partition_of(key: str) -> int:
    return partition_for_key(key.encode(), 3)


async def taking(
    consumer: Consumer[bytes, bytes], count: int
) -> AsyncIterator[ConsumerRecord[bytes, bytes]]:
    """Yield the first `count` records."""
    async with asyncio.timeout(DEADLINE_S):
        async for record in consumer:
            yield record
            count -= 1
            if not count:
                return


async def test_a_row_too_large_for_any_request_is_refused(address: str) -> None:
    topic = await new_topic(address)
    async with TaskProducer(address, max_request_size=10_000) as producer:
        batch = pa.RecordBatch.from_pydict({"value": pa.array([b"small", bytes(20_000)])})
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            await RowSender(producer, topic).send(batch)


async def test_an_invalid_topic_name_is_refused(address: str) -> None:
    async with TaskProducer(address) as producer:
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            await RowSender(producer, "no topic!").send(rows(0, 1))
