"""Several processes write the batches of a sink, and one decision commits each batch. The broker is
killed during decisions. Every batch is visible once and complete."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import (
    Admin,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
)
from tests.harness.broker import Oncelog
from tests.harness.client_reading import read_values

SINK, OUT = "sink", "out"
STATE = TopicPartition("sink-state", 0)
TASKS, BATCHES, KILLS = 4, 8, 6


class Sink:
    """The driver of a sink. It fences the older producers, reads the sink's progress and writes the
    next batch. A kill of the broker may stop the driver at any moment. The driver then begins
    again."""

    def __init__(self, broker: Oncelog) -> None:
        self.broker = broker
        self.generation = 0

    async def open(self, admin: Admin) -> tuple[TransactionGroup, TransactionMember, int]:
        """Begin a new generation, which fences every older producer. Then read the state. Return
        the group, its parent and the number of the next batch."""
        self.generation += 1
        group = TransactionGroup(SINK, self.generation)
        parent = await admin.init_producer(SINK, group)
        found = await admin.list_group_offsets(SINK, [STATE], require_stable=True)
        return group, parent, found[STATE].offset if STATE in found else 0

    async def write(
        self, admin: Admin, group: TransactionGroup, batch: int
    ) -> list[TransactionMember]:
        async def task(number: int) -> TransactionMember | None:
            name = f"{SINK}/{group.generation_id}/{number}"
            made = await admin.init_producer(name, group)
            async with Producer(self.broker.address, transactional_id=name) as producer:
                await producer.adopt_transactions(made, group)
                await producer.begin_transaction()
                await producer.send(OUT, b"%d" % batch, partition=number % 2)
                return await producer.hand_over_transaction()

        handed = await asyncio.gather(*(task(number) for number in range(TASKS)))
        return [member for member in handed if member is not None]


@pytest.mark.parametrize("flush_on_ack", ["false", "true"])
async def test_every_batch_is_there_once_and_whole_whenever_the_broker_is_killed(
    tmp_path: Path, flush_on_ack: str
) -> None:
    randomness = random.Random(7)
    kills = 0
    settings = {
        "oncelog.flush.on.ack": flush_on_ack,
        # Fewer partitions mean fewer files to open at each start.
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }
    with Oncelog(tmp_path, QUICK | settings) as broker:
        sink = Sink(broker)
        async with Admin(broker.address) as admin:
            await admin.create_topics([NewTopic(OUT, 2, 1), NewTopic(STATE.topic, 1, 1)])
        while True:
            async with Admin(broker.address) as admin:
                group, parent, batch = await sink.open(admin)
                values = await read_values(broker.address, OUT, committed=True)
                assert sorted(int(value or b"-1") for value in values) == [
                    number for number in range(batch) for _ in range(TASKS)
                ]
                if batch >= BATCHES:
                    break
                members = await sink.write(admin, group, batch)
                state = {STATE: OffsetAndMetadata(batch + 1, f"generation {sink.generation}")}
                deciding = asyncio.create_task(admin.commit_group(SINK, parent, members, state))
                killed = kills < KILLS
                if killed:
                    kills += 1
                    await asyncio.sleep(randomness.random() * 0.006)  # anywhere in the decision
                    broker.kill()
                    deciding.cancel()
                with suppress(KafkaError, asyncio.CancelledError):
                    await deciding
            if killed:
                broker.start()
    assert kills == KILLS
