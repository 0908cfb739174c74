"""Workload W7: transactions with an external decision (KIP-939). A database stores the decision.
After a crash the next process carries out the stored decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncelog_client import AbortableError, CommitOutcomeUnknown, KafkaError, Producer
from oncelog_client.core.prepared_txn_state import PreparedTxnState
from tests.simulation.checking.history import Outcome
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld

COMMIT_PROBABILITY = 0.8


@dataclass(slots=True)
class Decided:
    """A prepared transaction with a known decision. It may still be open."""

    attempt: Attempt
    commits: bool


class TwoPhase(TransactionalClient):
    """A two-phase client. `stored` and `decided` are in the database, so they survive every
    process."""

    kind = "two-phase"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name
        self.stored = PreparedTxnState()
        self.decided: Decided | None = None
        # True if a transaction may be open. The transaction has no timeout, so a client must end
        # it.
        self.may_be_open = False
        # A power loss may undo an acknowledged end and leave the transaction open. A client
        # therefore checks once more after the last power loss.
        self.must_look = world.options.is_lossy

    @property
    def is_done(self) -> bool:
        return self.has_done_enough and not self.may_be_open and not self.must_look

    async def work(self) -> None:
        producer = Producer(
            self.world.bootstrap,
            **self.producer_settings(
                transactional_id=self.transactional_id, transaction_two_phase_commit_enable=True
            ),
        )
        try:
            await producer.start()
            await producer.init_transactions(keep_prepared_txn=True)
            if self.decided is not None:
                self.world.sometimes.met("prepared transaction found after a crash")
            await self.complete(producer)
            if self.world.is_healed:
                self.must_look = False
            while not self.has_done_enough or self.may_be_open:
                await self.transaction(producer)
                await self.idle(20)
            if self.must_look:
                await self.world.healing.wait()
        finally:
            await self.close(producer)

    async def transaction(self, producer: Producer) -> bool:
        """Run one transaction. Raises KafkaError if a new producer must find its outcome."""
        attempt = self.world.recorder.begin(self.me, is_transaction=True)
        self.done += 1
        self.may_be_open = True
        try:
            await producer.begin_transaction()
            await self.fill(producer, attempt)
            state = await producer.prepare_transaction()
        except AbortableError:
            attempt.failed()
            await producer.abort_transaction()
            self.may_be_open = False
            return True
        except BaseException:
            # No decision is stored, so the next process aborts the transaction.
            attempt.failed()
            raise
        attempt.outlive()
        self.decided = Decided(attempt, self.rng.random() < COMMIT_PROBABILITY)
        self.stored = state if self.decided.commits else PreparedTxnState()
        await self.idle(100)
        if self.rng.random() < 0.1:
            self.world.sometimes.met("left a prepared transaction to the next producer")
            raise KafkaError("a crash between the decision and its execution")
        await self.complete(producer)
        return True

    async def complete(self, producer: Producer) -> None:
        for _ in range(4):
            try:
                await producer.complete_transaction(self.stored)
            except CommitOutcomeUnknown as unknown:
                if unknown.fatal:
                    raise
                continue
            if self.decided is not None:
                self.decided.attempt.end(Outcome.OK if self.decided.commits else Outcome.FAIL)
                self.decided = None
            self.may_be_open = False
            return
        raise KafkaError("the outcome of the transaction stays unknown")

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        for _ in range(self.rng.randint(1, 3)):
            topic, partition = self.rng.choice(self.world.shared_partitions)
            await self.send(producer, attempt, topic, partition, self.world.recorder.next_value())
