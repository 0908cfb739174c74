"""Idempotent sends without transactions, to partitions that also have transactions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from oncelog_client import KafkaError, Producer, TopicPartition
from tests.simulation.checking.history import Outcome
from tests.simulation.workloads.client import Client


class Plain(Client):
    kind = "plain"

    async def work(self) -> None:
        producer = Producer(self.world.bootstrap, **self.producer_settings(linger_ms=0))
        await producer.start()
        try:
            while not self.is_done:
                await self.send(producer)
                await self.idle(20)
        finally:
            with suppress(KafkaError):
                await producer.close(timeout_ms=500)

    def partitions(self) -> Sequence[TopicPartition]:
        return self.world.shared_partitions

    async def send(self, producer: Producer) -> None:
        topic, partition = self.rng.choice(self.partitions())
        value = self.world.recorder.next_value()
        attempt = self.world.recorder.begin(self.me)
        step = attempt.send(f"{topic}-{partition}", value)
        self.done += 1
        attempt.in_doubt = True
        try:
            sent = await producer.send(topic, b"%d" % value, partition=partition)
            acked = await sent
        except KafkaError:
            attempt.failed()
            raise
        attempt.acked(step, acked.offset)
        attempt.end(Outcome.OK)


class Feeder(Plain):
    """Writes the input of the copy workload."""

    kind = "feeder"

    def partitions(self) -> Sequence[TopicPartition]:
        return self.world.input_partitions
