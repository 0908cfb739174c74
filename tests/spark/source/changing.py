"""Changes of topics while a query reads them: transactions, compaction, truncation, growth,
deletion."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from oncelog_client import Admin, OffsetAndMetadata, Producer, TopicPartition
from tests.harness.client_reading import eventually
from tests.harness.waiting import wait_until
from tests.spark.topics import DEADLINE_S, TIMEOUT_MS, Row, Topics, ended

# The segment size is Kafka's minimum.
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.001",
}
RECORD_BYTES: Final = 100_000


def _by_admin(log: Topics, change: Callable[[Admin], Awaitable[object]]) -> None:
    async def changed() -> None:
        async with Admin(log.bootstrap) as admin:
            await change(admin)

    asyncio.run(changed())


def truncate(log: Topics, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition before an offset."""
    _by_admin(log, lambda admin: admin.delete_records({TopicPartition(topic, partition): before}))


def grow(log: Topics, topic: str, partitions: int) -> None:
    """Give the topic this number of partitions. Return when clients can write to all of them."""

    async def add(admin: Admin) -> None:
        await admin.create_partitions({topic: partitions})

        async def are_led() -> bool:
            there = (await admin.describe_topics([topic]))[topic].partitions
            return [partition.leader is not None for partition in there] == [True] * partitions

        # Kafka responds to the request before all its brokers have the partitions.
        await eventually(are_led)

    _by_admin(log, add)


def delete(log: Topics, topic: str) -> None:
    """Delete the topic, and wait until the broker does not know it."""

    there = {topic}

    async def look(admin: Admin) -> None:
        there.intersection_update(await admin.list_topics())

    _by_admin(log, lambda admin: admin.delete_topics([topic]))
    deadline = time.monotonic() + DEADLINE_S
    while there:
        assert time.monotonic() < deadline, f"{topic} still exists after {DEADLINE_S} s"
        _by_admin(log, look)


def commit(log: Topics, group: str, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
    """Commit an offset for a group."""
    _by_admin(log, lambda admin: admin.alter_group_offsets(group, {partition: offset}))


def committed(log: Topics, group: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group."""
    found: dict[TopicPartition, int] = {}

    async def read(admin: Admin) -> None:
        rows = await admin.list_group_offsets(group)
        found.update({partition: row.offset for partition, row in rows.items()})

    _by_admin(log, read)
    return found


@contextmanager
def open_transaction(log: Topics, topic: str, rows: Iterable[bytes]) -> Iterator[None]:
    """Append rows in a transaction that stays open until the end of the block. Then commit it."""
    with asyncio.Runner() as runner:
        producer = runner.run(_begun(log, topic, rows))
        try:
            yield
        finally:
            runner.run(_committed(producer))
            runner.run(ended(log.bootstrap, f"open-{topic}"))


async def _begun(log: Topics, topic: str, rows: Iterable[bytes]) -> Producer:
    producer = Producer(
        log.bootstrap, transactional_id=f"open-{topic}", transaction_timeout_ms=TIMEOUT_MS
    )
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    for row in rows:
        await producer.send(topic, row, partition=0)
    await producer.flush()
    return producer


async def _committed(producer: Producer) -> None:
    await producer.commit_transaction()
    await producer.close()


def create_compacted(log: Topics, topic: str, *, keys: int, records: int) -> None:
    """Create a topic of one partition with `records` records of `keys` keys. Wait until compaction
    has removed some of them."""
    log.create(topic, 1, COMPACTED)
    randomness = random.Random(0)
    log.append(
        topic,
        [
            Row(randomness.randbytes(RECORD_BYTES), b"%d" % (number % keys))
            for number in range(records)
        ],
    )
    wait_until(lambda: len(log.read(topic)) < records, f"{topic} is compacted", DEADLINE_S)
