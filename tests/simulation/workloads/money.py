"""W3: transfers between accounts. Each transaction writes a negative and a positive record of the
same amount, each to a random partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_client import Producer
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld


class Money(TransactionalClient):
    kind = "money"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name

    async def work(self) -> None:
        producer = await self.open_producer()
        try:
            await producer.init_transactions()
            while not self.is_done and await self.transaction(producer):
                await self.idle(20)
        finally:
            await self.close(producer)

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        amount = self.rng.randint(1, 100)
        partitions = self.world.shared_partitions
        for signed in (-amount, amount):
            value = self.world.recorder.next_value()
            self.world.amounts[value] = signed
            topic, partition = self.rng.choice(partitions)
            await self.send(producer, attempt, topic, partition, value)
