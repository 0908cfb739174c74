"""The client while its broker crashes. The broker dies without warning and starts on the same
data."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import (
    Admin,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S, eventually, read, read_values

TP = TopicPartition("t", 0)
# Time limit for the writing and three restarts of the broker, on a busy computer.
RESTARTS_S = 100.0
# Records without a response. They fill several batches, so a kill hits some of them.
MOST_IN_FLIGHT = 1_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    with Oncelog(tmp_path, QUICK) as running:
        yield running


def restart(broker: Oncelog) -> None:
    broker.kill()
    broker.start()


@asynccontextmanager
async def restarting(
    broker: Oncelog, times: int, done: Callable[[], int], step: int
) -> AsyncIterator[asyncio.Task[None]]:
    """Kill and start the broker `times` times while the block runs, each time after `done()` has
    grown by `step`. The block must run until the yielded task has ended."""

    async def crash() -> None:
        for _ in range(times):
            before = done()

            async def goes_on(before: int = before) -> bool:
                return done() >= before + step

            await eventually(goes_on)
            await asyncio.to_thread(restart, broker)

    task = asyncio.create_task(crash())
    yield task
    await task


async def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    broker: Oncelog,
) -> None:
    count = written = 0
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1, 1)])
    async with Producer(broker.address, batch_size=1000, linger_ms=0) as producer:
        deliveries: deque[asyncio.Future[RecordMetadata]] = deque()
        crashing = restarting(broker, 3, lambda: written, 500)
        async with crashing as crashes, asyncio.timeout(RESTARTS_S):
            while count < 3000 or not crashes.done():
                deliveries.append(await producer.send("t", b"%d" % count))
                count += 1
                if len(deliveries) > MOST_IN_FLIGHT:
                    await deliveries.popleft()
                    written += 1
        await producer.flush()
    values = await read_values(broker.address, "t", committed=False)
    assert values == [b"%d" % number for number in range(count)]


async def test_transactions_and_their_offsets_stay_whole_while_the_broker_crashes(
    broker: Oncelog,
) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1, 1), NewTopic("out", 2, 1)])
    transactions = 0
    async with Producer(broker.address, transactional_id="x") as producer:
        await producer.init_transactions()
        crashing = restarting(broker, 3, lambda: transactions, 10)
        async with crashing as crashes, asyncio.timeout(RESTARTS_S):
            while transactions < 60 or not crashes.done():
                async with producer.transaction():
                    for partition in (0, 1):
                        value = b"%03d" % transactions
                        await producer.send("out", value, partition=partition)
                    offsets = {TP: OffsetAndMetadata(transactions + 1)}
                    await producer.send_offsets_to_transaction(offsets, "g")
                transactions += 1
    expected = [b"%03d" % number for number in range(transactions)] * 2
    assert await read_values(broker.address, "out", committed=True) == expected
    async with Admin(broker.address) as admin:
        assert await admin.list_group_offsets("g") == {TP: OffsetAndMetadata(transactions)}


async def test_a_group_member_continues_after_the_crash(broker: Oncelog) -> None:
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


async def test_closing_does_not_wait_for_a_dead_broker(broker: Oncelog) -> None:
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
    async with asyncio.timeout(DEADLINE_S):  # far below the timeout of a request or a blocked call
        await consumer.close(timeout_ms=200)
        await producer.close(timeout_ms=200)
    with pytest.raises(KafkaError, match="closed"):
        await producer.begin_transaction()
