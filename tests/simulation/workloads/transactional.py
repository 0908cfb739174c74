"""Clients that run transactions with oncelog's own producer."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress

from oncelog_client import (
    AbortableError,
    CommitOutcomeUnknown,
    KafkaError,
    Producer,
    RecordMetadata,
    RetriableError,
)
from tests.simulation.checking.history import Outcome
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.client import PAUSE_S, Client

ABORT_PROBABILITY = 0.15
# Maximum number of attempts to learn an unknown outcome.
COMMIT_ATTEMPTS = 4


class TransactionalClient(Client):
    """A transactional client. A subclass implements `fill`, which adds records to a transaction."""

    transactional_id: str

    async def open_producer(self) -> Producer:
        producer = Producer(
            self.world.bootstrap,
            **self.producer_settings(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.world.options.transaction_timeout_ms,
                linger_ms=self.rng.choice((0, 0, 1)),
                batch_size=self.rng.choice((1, 200, 16_384)),
            ),
        )
        await producer.start()
        return producer

    @abstractmethod
    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        """Add records. Raises KafkaError."""

    async def after_abort(self) -> None:
        """Return to the last committed position, if the client consumes."""

    async def send(
        self, producer: Producer, attempt: Attempt, topic: str, partition: int, value: int
    ) -> None:
        step = attempt.send(f"{topic}-{partition}", value)
        ticket = await producer.send(topic, b"%d" % value, partition=partition)
        ticket.add_done_callback(lambda done: _acked(attempt, step, done))

    async def transaction(self, producer: Producer) -> bool:
        """Run one transaction. Return True if the producer can continue. Raises KafkaError if
        `after_abort` fails."""
        attempt = self.world.recorder.begin(self.me, is_transaction=True)
        self.done += 1
        try:
            await producer.begin_transaction()
            await self.fill(producer, attempt)
            await self.idle(20)
            if self.rng.random() < ABORT_PROBABILITY:
                return await self._abort(producer, attempt)
            return await self._commit(producer, attempt)
        except (AbortableError, RetriableError) as error:
            self.world.sometimes.met(f"transaction to be aborted: {error.code.name}")
            return await self._abort(producer, attempt)
        except KafkaError as error:
            self.world.sometimes.met(f"transaction lost: {error.code.name}")
            attempt.failed()
            return False

    async def _commit(self, producer: Producer, attempt: Attempt) -> bool:
        attempt.in_doubt = True
        for _ in range(COMMIT_ATTEMPTS):
            try:
                await producer.commit_transaction()
            except CommitOutcomeUnknown as unknown:
                self.world.sometimes.met("commit outcome unknown")
                if unknown.fatal:
                    break
                continue
            except AbortableError:
                # The transaction is not committed, and no commit is in flight that could still
                # commit it.
                attempt.in_doubt = False
                self.world.sometimes.met("commit refused, abortable")
                raise
            attempt.end(Outcome.OK)
            return True
        attempt.failed()
        return False

    async def _abort(self, producer: Producer, attempt: Attempt) -> bool:
        usable = False
        for _ in range(COMMIT_ATTEMPTS):
            try:
                await producer.abort_transaction()
            except RetriableError:
                self.world.sometimes.met("abort timed out")
                continue
            except KafkaError:
                break
            usable = True
            break
        attempt.failed()
        await asyncio.sleep(PAUSE_S)  # the cause of the error may still exist
        await self.after_abort()
        return usable

    async def close(self, producer: Producer) -> None:
        with suppress(KafkaError):
            await producer.close(timeout_ms=500)


def _acked(attempt: Attempt, step: int, done: asyncio.Future[RecordMetadata]) -> None:
    if not done.cancelled() and done.exception() is None:
        attempt.acked(step, done.result().offset)
