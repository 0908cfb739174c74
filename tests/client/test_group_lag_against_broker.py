"""The lag of a group is the number of records that its read_committed reader gets now. When all
open transactions are committed, the reader also gets the records that were held back. The admin
client and the metrics page show the same numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random

import pytest
import pytest_asyncio

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_client import Admin, Consumer, NewTopic, OffsetAndMetadata, TopicPartition
from oncelog_server.metrics import table as metrics
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S
from tests.harness.scraping import PORT, scrape
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce

HISTORIES = 50
PRODUCERS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> object:
    with Oncelog(tmp_path_factory.mktemp("lag"), QUICK | PORT) as started:
        yield started


@pytest_asyncio.fixture
async def admin(broker: Oncelog) -> AsyncIterator[Admin]:
    async with Admin(broker.address) as client:
        yield client


@dataclass
class History:
    """Transactions and non-transactional records of several producers in one partition. Some
    transactions stay open."""

    wire: Wire
    topic: str
    random: Random
    producers: list[Identity]
    sequences: dict[int, int] = field(default_factory=dict)

    def write(self, steps: int) -> None:
        for _ in range(steps):
            number = self.random.randrange(len(self.producers) + 1)
            if number == len(self.producers):
                plain = Identity(-1, -1)
                count = self.random.randint(1, 4)
                response = produce(self.wire, self.topic, batch(plain, -1, count))
                assert response.error_code == 0
            elif number in self.sequences and self.random.random() < 0.4:
                self.end(number, commit=self.random.random() < 0.5)
            else:
                self.send(number, self.random.randint(1, 4))

    def send(self, number: int, count: int) -> None:
        producer = self.producers[number]
        sequence = self.sequences.get(number, 0)
        data = batch(producer, sequence, count)
        assert produce(self.wire, self.topic, data, producer=producer).error_code == 0
        self.sequences[number] = sequence + count

    def end(self, number: int, *, commit: bool) -> None:
        producer = self.producers[number]
        response = end_transaction(self.wire, producer, commit=commit)
        assert response.error_code == 0
        self.producers[number] = Identity(
            response.producer_id, response.producer_epoch, producer.transactional_id
        )
        del self.sequences[number]

    def commit_all(self) -> None:
        for number in list(self.sequences):
            self.end(number, commit=True)


async def read_on(broker: Oncelog, place: TopicPartition, offset: int) -> int:
    """Return the number of records that a read_committed reader now gets from `offset` on."""
    async with Consumer(broker.address, isolation_level="read_committed") as consumer:
        await consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        consumer.seek(place, offset)
        count = 0
        async with asyncio.timeout(DEADLINE_S):
            while await consumer.position(place) < end:
                count += len(await consumer.poll(200))
        return count


@pytest.mark.parametrize("first_seed", range(0, HISTORIES, 10))
async def test_lag_and_held_back_records_are_those_that_a_reader_gets(
    broker: Oncelog, admin: Admin, first_seed: int
) -> None:
    with Wire(broker.address) as wire:
        for seed in range(first_seed, first_seed + 10):
            name = f"history-{seed}"
            await admin.create_topics([NewTopic(name, 1, 1)])
            identities = [new_identity(wire, f"{name}-{number}") for number in range(PRODUCERS)]
            history = History(wire, name, Random(seed), identities)
            history.write(history.random.randint(5, 40))
            place = TopicPartition(name, 0)
            end = (await admin.list_offsets({place: "latest"}))[place].offset
            committed = history.random.randint(0, end)
            await admin.alter_group_offsets(name, {place: OffsetAndMetadata(committed)})
            lag = (await admin.describe_group_lag(name))[place]
            assert lag.is_exact
            assert lag.committed_offset == committed
            page = scrape(broker)
            labels = {"consumergroup": name, "topic": name, "partition": "0"}
            assert page.value(metrics.GROUP_LAG.name, **labels) == lag.lag
            assert page.value(metrics.GROUP_HELD_BACK.name, **labels) == lag.held_back
            assert await read_on(broker, place, committed) == lag.lag
            history.commit_all()
            assert await read_on(broker, place, committed) == lag.lag + lag.held_back
            after = (await admin.describe_group_lag(name))[place]
            assert (after.lag, after.held_back) == (lag.lag + lag.held_back, 0)
            page = scrape(broker)
            assert page.value(metrics.GROUP_LAG.name, **labels) == after.lag
