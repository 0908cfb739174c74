"""Two members of a group have the same transactional id by mistake, on oncelog and on Apache
Kafka."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from oncelog_client import (
    AbortableError,
    Admin,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from tests.harness.client_reading import poll_until, read, read_decided


class Pair:
    """The two members. Each has one partition."""

    def __init__(self, stack: AsyncExitStack, bootstrap: str, name: str) -> None:
        self.stack, self.bootstrap, self.name = stack, bootstrap, name
        self.source, self.target = f"{name}-in", f"{name}-out"
        self.consumers: list[Consumer] = []

    async def start(self, admin: Admin) -> None:
        await admin.create_topics([NewTopic(self.source, 2, 1), NewTopic(self.target, 2, 1)])
        async with Producer(self.bootstrap) as producer:
            for partition in range(2):
                await (await producer.send(self.source, b"%d" % partition, partition=partition))
        for _ in range(2):
            consumer = Consumer(
                self.bootstrap,
                group_id=self.name,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_auto_commit=False,
                heartbeat_interval_ms=100,
            )
            self.consumers.append(await self.stack.enter_async_context(consumer))
            await consumer.subscribe([self.source])
        await poll_until(
            self.consumers,
            lambda: all(len(consumer.assignment()) == 1 for consumer in self.consumers),
        )
        for consumer in self.consumers:
            await consumer.reset_to_last_committed()

    async def new_producer(self) -> Producer:
        """Return a new producer. It fences the previous producer, because the id is the same."""
        producer = Producer(self.bootstrap, transactional_id=self.name)
        await self.stack.enter_async_context(producer)
        await producer.init_transactions()
        return producer

    async def begin(self, number: int, producer: Producer) -> None:
        """Begin a transaction with the next record of a member, and its offset."""
        consumer = self.consumers[number]
        (record,) = await read(consumer, 1)
        await producer.begin_transaction()
        await (await producer.send(self.target, record.value, partition=record.partition))
        offset = {record.topic_partition: OffsetAndMetadata(record.offset + 1)}
        await producer.send_offsets_to_transaction(offset, consumer.group_metadata())


async def test_g8_two_members_with_one_transactional_id_fence_each_other_without_duplicates(
    bootstrap: str, admin: Admin, name: str
) -> None:
    async with AsyncExitStack() as stack:
        pair = Pair(stack, bootstrap, name)
        await pair.start(admin)
        first = await pair.new_producer()
        await pair.begin(0, first)
        second = await pair.new_producer()
        await pair.begin(1, second)
        with pytest.raises(ProducerFencedError):
            await first.commit_transaction()
        try:
            await second.commit_transaction()
        except AbortableError:
            # After its refused commit, the first producer has sent InitProducerId with its old
            # epoch, to learn if it is fenced. In Kafka, this request aborts the open transaction of
            # the second producer.
            await second.abort_transaction()
            await pair.consumers[1].reset_to_last_committed()
            await pair.begin(1, second)
            await second.commit_transaction()
        # The first member starts again at the committed offsets, and now fences the second.
        await pair.consumers[0].reset_to_last_committed()
        third = await pair.new_producer()
        await pair.begin(0, third)
        await third.commit_transaction()
        with pytest.raises(ProducerFencedError):
            async with second.transaction():
                await second.send(pair.target, b"doubled", partition=0)
    places = [TopicPartition(pair.source, number) for number in range(2)]
    offsets = await admin.list_group_offsets(name, places, require_stable=True)
    assert [offsets[place].offset for place in places] == [1, 1]
    values = await read_decided(bootstrap, pair.target)
    assert sorted(value or b"" for value in values) == [b"0", b"1"]
