"""A reader gets the rows of a task as the task wrote them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog_client import Admin, NewTopic
from oncelog_client.errors import KafkaError, RecordTooLargeError
from oncelog_client.spark.records.arrow_encode import RowError
from oncelog_client.spark.sink.row_sender import RowSender
from oncelog_client.spark.sink.task_producer import TaskProducer
from tests.harness.broker import Oncelog
from tests.harness.client_reading import read_values


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
