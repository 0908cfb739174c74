"""Reads with a deadline, for the client's tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from oncelog_client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from oncelog_client.admin.client import OffsetSpec
from oncelog_client.config import IsolationLevel
from oncelog_client.values import K, V

DEADLINE_S = 20.0


async def eventually(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until the condition holds. A request may take effect a moment after its response."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


async def read(consumer: Consumer[K, V], count: int) -> list[ConsumerRecord[K, V]]:
    """Return the next records, at least `count`. Raises TimeoutError if fewer come in time."""
    records: list[ConsumerRecord[K, V]] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(records) < count:
            records += await consumer.poll(200)
    return records


async def read_values(bootstrap: str, topic: str, *, committed: bool) -> list[bytes | None]:
    """Return all values of a topic that a reader gets now, partition by partition."""
    level: IsolationLevel = "read_committed" if committed else "read_uncommitted"
    async with Consumer(bootstrap, isolation_level=level) as consumer:
        partitions = await partitions_of(consumer, topic)
        ends = await consumer.end_offsets(partitions)
        await consumer.assign(partitions)
        await consumer.seek_to_beginning()
        records: list[ConsumerRecord] = []
        async with asyncio.timeout(DEADLINE_S):
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                records += await consumer.poll(200)
    return [record.value for record in sorted(records, key=lambda r: (r.partition, r.offset))]


async def read_decided(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return the committed values of a topic once the topic has no open transaction. Kafka responds
    to a commit before the partitions have its markers."""
    async with Producer(bootstrap) as client:
        places = await partitions_of(client, topic)
    async with Admin(bootstrap) as admin:

        async def decided() -> bool:
            latest: dict[TopicPartition, OffsetSpec] = dict.fromkeys(places, "latest")
            stable = await admin.list_offsets(latest, isolation_level="read_committed")
            ends = await admin.list_offsets(latest)
            return all(stable[place].offset == ends[place].offset for place in places)

        await eventually(decided)
    return await read_values(bootstrap, topic, committed=True)


async def partitions_of(client: Consumer | Producer, topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic."""
    return [TopicPartition(topic, row.partition) for row in await client.partitions_for(topic)]


async def poll_until(
    consumers: Sequence[Consumer], condition: Callable[[], object]
) -> list[ConsumerRecord]:
    """Poll all consumers in turn until `condition()` holds. Return their records."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            for consumer in consumers:
                records += await consumer.poll(50)
    return records
