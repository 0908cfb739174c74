"""A broker loses unsynced records in a power failure. A consumer that has read these records
continues at the first lost offset, or raises an error if auto_offset_reset is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import (
    Admin,
    Consumer,
    NewTopic,
    OffsetOutOfRangeError,
    Producer,
    TopicPartition,
)
from oncelog_client.config import OffsetReset
from tests.harness.broker import Oncelog
from tests.harness.client_reading import read

TP = TopicPartition("t", 0)
KEPT, READ, REGROWN = 3, 6, 9


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    with Oncelog(tmp_path, QUICK) as running:
        yield running


@pytest.fixture
async def producer(broker: Oncelog) -> AsyncIterator[Producer]:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1, 1)])
    async with Producer(broker.address, enable_idempotence=False) as made:
        yield made


async def write(producer: Producer, count: int, value: bytes) -> None:
    """Write records, each in its own batch."""
    for _ in range(count):
        await (await producer.send("t", value))


async def lose_power(broker: Oncelog, producer: Producer) -> None:
    """Stop the broker as a power failure does: of READ records, the log keeps the first KEPT. Then
    write until the log has REGROWN records, which is more than READ."""
    (segment,) = (broker.data / "t-0").glob("*.log")
    size = segment.stat().st_size
    broker.kill()
    with segment.open("r+b") as file:
        file.truncate(size * KEPT // READ)
    await asyncio.to_thread(broker.start)
    await write(producer, REGROWN - KEPT, b"new")


@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_reading_continues_at_the_first_lost_offset(
    broker: Oncelog, producer: Producer, reset: OffsetReset
) -> None:
    """A former defect: the consumer silently continued in the middle of records that it had never
    read."""
    await write(producer, READ, b"old")
    async with Consumer(broker.address, auto_offset_reset=reset) as consumer:
        await consumer.assign([TP])
        consumer.seek(TP, 0)
        await read(consumer, READ)
        await lose_power(broker, producer)
        records = await read(consumer, REGROWN - KEPT)
    assert [(row.offset, row.value) for row in records] == [
        (offset, b"new") for offset in range(KEPT, REGROWN)
    ]


async def test_a_position_out_of_range_raises_until_a_seek(
    broker: Oncelog, producer: Producer
) -> None:
    await write(producer, READ, b"old")
    async with Consumer(broker.address, auto_offset_reset="none") as consumer:
        await consumer.assign([TP])
        consumer.seek(TP, 0)
        await read(consumer, READ)
        await lose_power(broker, producer)
        for _ in range(2):
            with pytest.raises(
                OffsetOutOfRangeError, match=rf"t-0: .* {READ} .* from offset {KEPT} on"
            ):
                await read(consumer, 1)
        consumer.seek(TP, KEPT)
        assert len(await read(consumer, REGROWN - KEPT)) == REGROWN - KEPT


async def test_a_consumer_with_a_committed_offset_continues_at_the_first_lost_offset(
    broker: Oncelog, producer: Producer
) -> None:
    await write(producer, READ, b"old")
    settings: Any = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with Consumer(broker.address, **settings) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, READ)
    await lose_power(broker, producer)
    async with Consumer(broker.address, **settings) as consumer:
        await consumer.subscribe(["t"])
        records = await read(consumer, REGROWN - KEPT)
    assert [row.offset for row in records] == [*range(KEPT, REGROWN)]
