"""Two members of a group that were given one transactional id by mistake, on oncelog and on Apache
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
from tests.client.reading import poll_until, read, read_values


async def test_g8_of_two_members_with_one_transactional_id_one_is_fenced_and_nothing_doubled(
    bootstrap: str, admin: Admin, name: str
) -> None:
    source, target = f"{name}-in", f"{name}-out"
    await admin.create_topics([NewTopic(source, 2, 1), NewTopic(target, 2, 1)])
    async with Producer(bootstrap) as producer:
        for partition in range(2):
            await (await producer.send(source, b"%d" % partition, partition=partition))
    async with AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(
                Consumer(
                    bootstrap,
                    group_id=name,
                    auto_offset_reset="earliest",
                    isolation_level="read_committed",
                    enable_auto_commit=False,
                    heartbeat_interval_ms=100,
                )
            )
            for _ in range(2)
        ]
        for consumer in consumers:
            await consumer.subscribe([source])
        await poll_until(consumers, lambda: all(len(one.assignment()) == 1 for one in consumers))
        await consumers[0].reset_to_last_committed()
        await consumers[1].reset_to_last_committed()

        async def new_producer() -> Producer:
            """Of the id that both have: it fences the one before it."""
            producer = Producer(bootstrap, transactional_id=name)
            await stack.enter_async_context(producer)
            await producer.init_transactions()
            return producer

        async def begin(consumer: Consumer, producer: Producer) -> None:
            """A transaction over the member's share."""
            (record,) = await read(consumer, 1)
            await producer.begin_transaction()
            await producer.send(target, record.value, partition=record.partition)
            offset = {record.topic_partition: OffsetAndMetadata(record.offset + 1)}
            await producer.send_offsets_to_transaction(offset, consumer.group_metadata())

        first = await new_producer()
        await begin(consumers[0], first)
        second = await new_producer()
        await begin(consumers[1], second)
        with pytest.raises(ProducerFencedError):
            await first.commit_transaction()
        try:
            await second.commit_transaction()
        except AbortableError:
            # Kafka lets the zombie, when it asks whether it is one, abort what is open.
            await second.abort_transaction()
            await consumers[1].reset_to_last_committed()
            await begin(consumers[1], second)
            await second.commit_transaction()
        # It begins anew from what is committed, and fences the other in its turn.
        await consumers[0].reset_to_last_committed()
        third = await new_producer()
        await begin(consumers[0], third)
        await third.commit_transaction()
        with pytest.raises(ProducerFencedError):
            async with second.transaction():
                await second.send(target, b"doubled", partition=0)
    places = [TopicPartition(source, number) for number in range(2)]
    offsets = await admin.list_group_offsets(name, places, require_stable=True)
    assert [offsets[place].offset for place in places] == [1, 1]
    values = await read_values(bootstrap, target, committed=True)
    assert sorted(value or b"" for value in values) == [b"0", b"1"]
