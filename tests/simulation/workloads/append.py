"""Workload W1: transactions of one to four steps. Each step appends to a random partition or
reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_client import Consumer, Producer
from tests.simulation.options import LEAST_TRANSACTIONS
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.reading import by_key
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld


class Append(TransactionalClient):
    kind = "append"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name
        self._consumer: Consumer | None = None

    @property
    def has_done_enough(self) -> bool:
        """Return True if this client has done enough and the whole world has enough transactions.
        Every world has an `Append` client, so a world reaches this number even with few clients or
        early deaths."""
        return super().has_done_enough and self.world.recorder.transactions >= LEAST_TRANSACTIONS

    async def work(self) -> None:
        self._consumer = None  # a new process does not use the killed process's consumer
        producer = await self.open_producer()
        consumer = Consumer(
            self.world.bootstrap,
            **self.settings(isolation_level="read_committed", auto_offset_reset="earliest"),
        )
        try:
            await producer.init_transactions()
            if self.rng.random() < 0.5:
                self._consumer = consumer
                await consumer.start()
                await consumer.assign(self.world.shared_partitions)
                keys = map(str, self.world.shared_partitions)
                self.world.recorder.assigned(self.me, keys, from_start=True)
            while not self.is_done and await self.transaction(producer):
                await self.idle(30)
        finally:
            await consumer.close()
            await self.close(producer)

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        # The consumer has no group, so even after an abort it continues at its position.
        attempt.rewound = False
        for _ in range(self.rng.randint(1, 4)):
            if self._consumer is not None and self.rng.random() < 0.3:
                records = await self._consumer.poll(timeout_ms=20, max_records=10)
                attempt.poll(by_key(records))
                continue
            topic, partition = self.rng.choice(self.world.shared_partitions)
            await self.send(producer, attempt, topic, partition, self.world.recorder.next_value())
            await self.idle(5)
