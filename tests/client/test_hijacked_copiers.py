"""If a client takes over a copier's transactional id, the copier loses a transaction, but never a
record."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_client import (
    AbortableError,
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    FatalError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from oncelog_protocol.errors import ErrorCode
from tests.harness.client_reading import read_decided

COPIERS = 3
RECORDS = 2_000
PER_TRANSACTION = 10


class Copier:
    """Copies one partition with a few records per transaction. A fenced copier starts again."""

    def __init__(self, bootstrap: str, topic: str, number: int, *, on_kafka: bool) -> None:
        self.bootstrap = bootstrap
        self.on_kafka = on_kafka
        self.input = TopicPartition(f"{topic}-in", number)
        self.output = f"{topic}-out"
        self.name = f"{topic}-{number}"
        self.fenced = 0
        self.under_way = asyncio.Event()
        self.hijacked = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                async with Producer(self.bootstrap, transactional_id=self.name) as producer:
                    await producer.init_transactions()
                    async with Consumer(
                        self.bootstrap,
                        group_id=self.name,
                        isolation_level="read_committed",
                        enable_auto_commit=False,
                        max_poll_records=PER_TRANSACTION,
                    ) as consumer:
                        await consumer.assign([self.input])
                        return await self.copy(consumer, producer)
            except (AbortableError, ProducerFencedError):
                # The copier gets AbortableError if its request comes between the hijacker's abort
                # and the new epoch.
                self.fenced += 1
            except FatalError as error:
                # Kafka fences in two steps. A commit between them gets this code (the coordinator
                # throws: "while it already a pending state PrepareEpochFence").
                if not self.on_kafka or error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                    raise
                self.fenced += 1

    async def copy(self, consumer: Consumer, producer: Producer) -> None:
        committed = (await consumer.committed(self.input)).get(self.input)
        consumer.seek(self.input, 0 if committed is None else committed.offset)
        position = await consumer.position(self.input)
        while position < RECORDS:
            records = await consumer.poll(1_000)
            if not records:
                continue
            if records[-1].offset + 1 >= RECORDS:
                # The hijacker may be slow, so the copier waits for it before its last transaction.
                await self.hijacked.wait()
            async with producer.transaction():
                for record in records:
                    await producer.send(self.output, record.value, partition=self.input.partition)
                position = records[-1].offset + 1
                await producer.send_offsets_to_transaction(
                    {self.input: OffsetAndMetadata(position)}, ConsumerGroupMetadata(self.name)
                )
            self.under_way.set()


async def test_z12_copiers_fenced_once_by_another_client_copy_every_record_once(
    admin: Admin, bootstrap: str, name: str, request: pytest.FixtureRequest
) -> None:
    await admin.create_topics(
        [NewTopic(f"{name}-in", COPIERS, 1), NewTopic(f"{name}-out", COPIERS, 1)]
    )
    async with Producer(bootstrap) as producer:
        for number in range(COPIERS):
            for value in range(RECORDS):
                await producer.send(f"{name}-in", b"%d" % value, partition=number)
        await producer.flush()
    on_kafka = request.node.callspec.params["bootstrap"] == "kafka"
    copiers = [Copier(bootstrap, name, number, on_kafka=on_kafka) for number in range(COPIERS)]
    running = [asyncio.create_task(copier.run()) for copier in copiers]

    async def hijack(copier: Copier) -> None:
        await copier.under_way.wait()
        await admin.fence_producers([copier.name])
        copier.hijacked.set()

    await asyncio.gather(*map(hijack, copiers))
    await asyncio.gather(*running)
    assert all(copier.fenced for copier in copiers)
    # All values, one partition after the other, each in the order of its offsets.
    assert await read_decided(bootstrap, f"{name}-out") == COPIERS * [
        b"%d" % value for value in range(RECORDS)
    ]
