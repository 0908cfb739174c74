"""A producer with acks=0. It gets no response that could wake it."""

from __future__ import annotations

import asyncio

from oncelog_client import Admin, Producer, TopicPartition
from oncelog_client.io.clock import monotonic_ms
from tests.harness.client_reading import DEADLINE_S, eventually, read_values


async def test_a_producer_continues_after_its_socket_was_full(bootstrap: str, topic: str) -> None:
    values = [b"%d" % number + b"x" * 200_000 for number in range(40)]
    place = TopicPartition(topic, 0)
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap, acks=0, enable_idempotence=False, batch_size=1) as producer,
        asyncio.timeout(DEADLINE_S),
    ):
        # Wait for a leader, because without a leader the first records would be lost without an
        # error.
        await admin.list_offsets({place: "latest"})
        for value in values:
            await producer.send(topic, value, partition=0)
        await producer.flush()

        async def all_is_there() -> bool:
            return (await admin.list_offsets({place: "latest"}))[place].offset == len(values)

        await eventually(all_is_there)
    assert await read_values(bootstrap, topic, committed=False) == values


async def test_buffer_memory_is_freed_without_a_response(bootstrap: str, topic: str) -> None:
    place, count = TopicPartition(topic, 0), 200
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap, acks=0, enable_idempotence=False, buffer_memory=20_000) as producer,
        asyncio.timeout(DEADLINE_S),
    ):
        await admin.list_offsets({place: "latest"})  # wait for a leader, so that no record is lost
        for _ in range(count):
            await producer.send(topic, b"x" * 1_000, partition=0)
        await producer.flush()

        async def all_is_there() -> bool:
            return (await admin.list_offsets({place: "latest"}))[place].offset == count

        await eventually(all_is_there)


async def test_a_connection_without_responses_is_not_idle(bootstrap: str, topic: str) -> None:
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap, acks=0, enable_idempotence=False) as producer,
        asyncio.timeout(DEADLINE_S),
    ):
        # Wait for a leader, because without a leader the broker closes the connection.
        await admin.list_offsets({TopicPartition(topic, 0): "latest"})
        await (await producer.send(topic, b"", partition=0))
        connections = list(producer._cluster._connections)
        for connection in connections:
            connection.last_used_ms -= 1_000
        before_ms = monotonic_ms()
        await (await producer.send(topic, b"", partition=0))
        assert max(connection.last_used_ms for connection in connections) >= before_ms
