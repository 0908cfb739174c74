"""Workload W5: transactions with many batches in flight, as raw requests, in transaction versions 1
and 2. Other clients take over their transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog_client.config import ClientConfig
from oncelog_client.errors import DisconnectedError, KafkaError, TimedOutError
from oncelog_protocol.errors import ErrorCode
from tests.simulation.checking.history import Outcome
from tests.simulation.checking.promises import Appended, Ended
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.client import Client
from tests.simulation.workloads.raw import RawBatch, RawProducer, outcome

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld

WRITTEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
IN_FLIGHT = 5


class Pipelined(Client):
    kind = "pipelined"
    v2 = True

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name

    async def work(self) -> None:
        config = ClientConfig(bootstrap_servers=(("broker", 9092),), **self.settings())
        producer = RawProducer(config, self.transactional_id, v2=self.v2)
        try:
            await producer.init(self.world.options.transaction_timeout_ms)
            while not self.is_done and await self.transaction(producer):
                await self.idle(20)
        finally:
            producer.close()

    async def transaction(self, producer: RawProducer) -> bool:
        """Run a transaction. Return True if the producer can run another one."""
        identity = (producer.producer_id, producer.epoch)
        self.world.promises.hands(*identity, f"process {self.me.index}")
        attempt = self.world.recorder.begin(self.me, is_transaction=True)
        self.done += 1
        try:
            written = await self.write(producer, attempt)
            await self.idle(10)
            commit = written and self.rng.random() > 0.15
            attempt.in_doubt = commit
            code = await producer.end(commit=commit)
        except KafkaError as error:
            attempt.failed()
            if isinstance(error, TimedOutError | DisconnectedError):
                self.world.sometimes.met("raw producer lost an answer")
            return False
        if code:
            self.note(code)
            attempt.failed()
            return False
        self.world.promises.ended.append(Ended(self.transactional_id, *identity, commit))
        attempt.end(Outcome.OK if commit else Outcome.FAIL)
        if not written and not self.v2:
            # The sequence numbers have a gap. Only a new epoch resets them (KIP-360).
            await producer.init(self.world.options.transaction_timeout_ms, bump=True)
        return True

    def register(self, producer: RawProducer, partition: tuple[str, int]) -> None:
        """Note that a partition is in the transaction: the broker has confirmed it, or has accepted
        a batch for the partition."""
        identity = (self.transactional_id, producer.producer_id, producer.epoch)
        self.world.promises.registered.append((*identity, partition))

    def note(self, code: int) -> None:
        known = ErrorCode(code)
        self.world.sometimes.met(f"end refused {known.name}")

    async def write(self, producer: RawProducer, attempt: Attempt) -> bool:
        """Write the batches. Return True if the broker has all of them. Raises KafkaError."""
        partitions = self.rng.sample(
            self.world.shared_partitions, self.rng.randint(1, len(self.world.shared_partitions))
        )
        if not self.v2:
            await producer.add([(topic, index) for topic, index in partitions])
            for topic, index in partitions:
                self.register(producer, (topic, index))
        identity = (producer.producer_id, producer.epoch)
        sent: list[tuple[RawBatch, Any, list[int]]] = []
        for _ in range(self.rng.randint(1, IN_FLIGHT)):
            topic, partition = self.rng.choice(partitions)
            values = [self.world.recorder.next_value() for _ in range(self.rng.randint(1, 2))]
            batch = producer.next_batch(topic, partition, values)
            steps = [attempt.send(f"{topic}-{partition}", value) for value in values]
            sent.append((batch, await producer.produce(batch, self.world.now_ms), steps))
        again = self.rng.choice(sent)[0] if self.rng.random() < 0.2 else None
        repeated = None if again is None else await producer.produce(again, self.world.now_ms)
        offsets: dict[int, int] = {}
        whole = True
        for batch, answer, steps in sent:
            row = outcome(await answer)
            whole = whole and row.error_code in WRITTEN
            if row.error_code:
                self.world.sometimes.met(f"batch refused {ErrorCode(row.error_code).name}")
            elif row.base_offset >= 0:
                offsets[id(batch)] = row.base_offset
                self.register(producer, (batch.topic, batch.partition))
                self.world.promises.appended.append(
                    Appended(
                        (batch.topic, batch.partition), *identity, batch.sequence, row.base_offset
                    )
                )
                for index, step in enumerate(steps):
                    attempt.acked(step, row.base_offset + index)
        if again is not None and repeated is not None:
            self.compare(outcome(await repeated), offsets.get(id(again)))
        return whole

    def compare(self, row: Any, offset: int | None) -> None:
        """Check that the response to a resent batch has the offset of the first write (R1)."""
        if row.error_code == ErrorCode.NONE and offset is not None and row.base_offset >= 0:
            self.world.sometimes.met("duplicate answered with its first offset")
            if row.base_offset != offset:
                self.world.violate(f"a repeated batch is at {row.base_offset}, not {offset}")


class PipelinedV2(Pipelined):
    kind = "pipelined-v2"


class PipelinedV1(Pipelined):
    kind = "pipelined-v1"
    v2 = False


class Hijack(Pipelined):
    """A client that takes over other clients' transactional ids, writes a little, and ends."""

    kind = "hijack"

    async def work(self) -> None:
        victims = [name for name in self.world.transactional_ids if name != self.name]
        if not victims:
            self.done = self.quota
            return
        self.transactional_id = self.rng.choice(victims)
        self.v2 = not self.transactional_id.startswith("pipelined-v1")
        config = ClientConfig(bootstrap_servers=(("broker", 9092),), **self.settings())
        producer = RawProducer(config, self.transactional_id, v2=self.v2)
        self.world.sometimes.met("transactional id taken over")
        try:
            await producer.init(self.world.options.transaction_timeout_ms)
            for _ in range(self.rng.randint(0, 2)):
                if not await self.transaction(producer):
                    break
            self.done += 3
            await self.idle(600)
        finally:
            producer.close()
