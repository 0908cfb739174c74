"""The client over crashes of the broker: killed without warning, started on the same data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog_client import (
    Admin,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from tests.client.conftest import QUICK
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S, read, read_values

TP = TopicPartition("t", 0)
# Three starts of a process, on a machine with other things to do.
RESTARTS_S = 100.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    with Oncelog(tmp_path, QUICK) as running:
        yield running


def restart(broker: Oncelog) -> None:
    broker.kill()
    broker.start()


@asynccontextmanager
async def restarting(broker: Oncelog, times: int) -> AsyncIterator[None]:
    """Kill and start the broker beside what the block does, until it is through as well."""

    async def crash() -> None:
        for _ in range(times):
            await asyncio.sleep(0.3)  # a kill meets the work anywhere, not at a step of it
            await asyncio.to_thread(restart, broker)

    task = asyncio.create_task(crash())
    yield
    await task


async def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    broker: Oncelog,
) -> None:
    count = 0
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1, 1)])
    async with Producer(broker.address, batch_size=1000, linger_ms=0) as producer:
        async with restarting(broker, 3) as _, asyncio.timeout(RESTARTS_S):
            for count in range(3000):
                await producer.send("t", b"%d" % count)
                if count % 10 == 0:
                    await asyncio.sleep(0.004)  # so that the work outlasts the kills
        await producer.flush()
    values = await read_values(broker.address, "t", committed=False)
    assert values == [b"%d" % number for number in range(count + 1)]


async def test_transactions_are_whole_and_offsets_with_them(broker: Oncelog) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1, 1), NewTopic("out", 2, 1)])
    transactions = 60
    async with Producer(broker.address, transactional_id="x") as producer:
        await producer.init_transactions()
        async with restarting(broker, 3), asyncio.timeout(RESTARTS_S):
            for number in range(transactions):
                async with producer.transaction():
                    for partition in (0, 1):
                        await producer.send("out", b"%03d" % number, partition=partition)
                    offsets = {TP: OffsetAndMetadata(number + 1)}
                    await producer.send_offsets_to_transaction(offsets, "g")
                await asyncio.sleep(0.01)  # so that the work outlasts the kills
    expected = [b"%03d" % number for number in range(transactions)] * 2
    assert await read_values(broker.address, "out", committed=True) == expected
    async with Admin(broker.address) as admin:
        assert await admin.list_group_offsets("g") == {TP: OffsetAndMetadata(transactions)}


async def test_a_group_member_goes_on_after_the_crash(broker: Oncelog) -> None:
    async with (
        Producer(broker.address) as producer,
        Consumer(broker.address, group_id="g", auto_offset_reset="earliest") as consumer,
    ):
        await consumer.subscribe(["t"])
        await (await producer.send("t", b"before"))
        assert [record.value for record in await read(consumer, 1)] == [b"before"]
        await consumer.commit()
        await asyncio.to_thread(restart, broker)
        await (await producer.send("t", b"after"))
        assert [record.value for record in await read(consumer, 1)] == [b"after"]
        await consumer.commit()
        found = await consumer.committed()
    assert [offset.offset for offset in found.values() if offset] == [2]


async def test_closing_does_not_wait_for_a_broker_that_is_gone(broker: Oncelog) -> None:
    consumer = Consumer(broker.address, group_id="g", auto_offset_reset="earliest")
    producer = Producer(broker.address, transactional_id="x")
    await consumer.start()
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await (await producer.send("t", b"open"))
    await consumer.subscribe(["t"])
    await read(consumer, 1)
    broker.kill()
    async with asyncio.timeout(DEADLINE_S):  # far below what a request or a block waits
        await consumer.close(timeout_ms=200)
        await producer.close(timeout_ms=200)
    with pytest.raises(KafkaError, match="closed"):
        await producer.begin_transaction()
