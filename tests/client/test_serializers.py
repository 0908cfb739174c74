"""Producer and consumer with serializers and deserializers, and `send_and_wait`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_client import (
    Consumer,
    Producer,
    RecordDeserializationError,
    SerializationError,
    TopicPartition,
)
from oncelog_client.serialization import (
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    StringDeserializer,
    StringSerializer,
)
from tests.harness.client_reading import DEADLINE_S, read


async def test_a_record_is_read_as_it_was_sent(bootstrap: str, topic: str) -> None:
    async with (
        Producer(
            bootstrap, key_serializer=LongSerializer(), value_serializer=JsonSerializer()
        ) as producer,
        Consumer(
            bootstrap, key_deserializer=LongDeserializer(), value_deserializer=JsonDeserializer()
        ) as consumer,
        asyncio.timeout(DEADLINE_S),
    ):
        written = await producer.send_and_wait(topic, {"amount": 7}, 42, partition=0)
        assert written == (topic, 0, 0, written.timestamp_ms)
        deleted = await producer.send_and_wait(topic, None, 42, partition=0)
        assert deleted.offset == 1
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        found = await read(consumer, 2)
        assert [(record.key, record.value) for record in found] == [(42, {"amount": 7}), (42, None)]
        await consumer.seek_to_beginning()
        record = await anext(aiter(consumer))
        assert (record.key, record.value) == (42, {"amount": 7})


async def test_a_serialized_key_chooses_the_same_partition_as_its_bytes(
    bootstrap: str, topic: str
) -> None:
    async with (
        Producer(bootstrap, key_serializer=StringSerializer()) as texts,
        Producer(bootstrap) as plain,
    ):
        for number in range(20):
            key = f"key-{number}"
            written = [await texts.send_and_wait(topic, b"", key)]
            written.append(await plain.send_and_wait(topic, b"", key.encode()))
            assert written[0].partition == written[1].partition


async def test_a_value_that_cannot_be_serialized_is_not_sent(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, value_serializer=JsonSerializer()) as producer:
        with pytest.raises(SerializationError):
            await producer.send(topic, object())
        assert (await producer.send_and_wait(topic, 1, partition=0)).offset == 0


async def test_a_transaction_with_a_failed_serializer_is_aborted(
    bootstrap: str, topic: str, name: str
) -> None:
    async with Producer(
        bootstrap, transactional_id=name, value_serializer=StringSerializer()
    ) as producer:
        await producer.init_transactions()

        async def fail() -> None:
            unsuitable: Any = 7
            async with producer.transaction():
                await producer.send(topic, "dropped", partition=0)
                await producer.send(topic, unsuitable, partition=0)

        with pytest.raises(SerializationError):
            await fail()
        async with producer.transaction():
            await producer.send(topic, "after", partition=0)
    async with Consumer(
        bootstrap, isolation_level="read_committed", value_deserializer=StringDeserializer()
    ) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        assert [record.value for record in await read(consumer, 1)] == ["after"]


async def test_every_poll_raises_at_a_record_that_cannot_be_deserialized(
    bootstrap: str, topic: str
) -> None:
    """The records before it are returned first, and the consumer continues after a seek past it
    (KIP-334)."""
    async with Producer(bootstrap) as producer:
        for value in (b"one", b"\xff", b"three"):
            await producer.send_and_wait(topic, value, b"k", partition=0)
    place = TopicPartition(topic, 0)
    async with (
        Consumer(bootstrap, value_deserializer=StringDeserializer()) as consumer,
        asyncio.timeout(DEADLINE_S),
    ):
        await consumer.assign([place])
        await consumer.seek_to_beginning()
        assert [record.value for record in await read(consumer, 1)] == ["one"]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as caught:
                await read(consumer, 1)
            assert (caught.value.record.offset, caught.value.record.value) == (1, b"\xff")
            assert await consumer.position(place) == 1
        consumer.seek(place, caught.value.record.offset + 1)
        assert [record.value for record in await read(consumer, 1)] == ["three"]


async def test_records_of_other_partitions_are_not_lost_after_a_failure(
    bootstrap: str, topic: str
) -> None:
    async with Producer(bootstrap) as producer:
        for partition, value in ((0, b"\xff"), (1, b"a"), (1, b"b")):
            await producer.send_and_wait(topic, value, partition=partition)
    places = [TopicPartition(topic, partition) for partition in range(2)]
    seen: list[str | None] = []
    async with (
        Consumer(bootstrap, value_deserializer=StringDeserializer()) as consumer,
        asyncio.timeout(DEADLINE_S),
    ):
        await consumer.assign(places)
        await consumer.seek_to_beginning()
        while seen != ["a", "b"]:
            try:
                seen += [record.value for record in await consumer.poll(100)]
            except RecordDeserializationError as error:
                consumer.seek(places[0], error.record.offset + 1)
    assert seen == ["a", "b"]
