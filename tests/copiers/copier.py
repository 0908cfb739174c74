"""A process that copies records in transactions. It can be suspended, killed, or replaced by a
process of another kind.

`python -m tests.copiers.copier KIND ADDRESS NAME NUMBER TIMEOUT_MS SESSION_MS LOGIN`. KIND is `old`
or a key of `KINDS`. NAME is the group's name, and the topics are NAME-in and NAME-out. TIMEOUT_MS
is the transaction timeout, SESSION_MS the consumer's session timeout. LOGIN is `Work.login`, which
the kind `old` does not use. SIGTERM ends the process after its current transaction. SIGUSR1
suspends any kind but `old` (as SIGSTOP does) in the next transaction, between its records and its
offsets. Exit code 3 means that the copier's producer cannot continue.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence

from oncelog_client import (
    AbortableError,
    CommitOutcomeUnknown,
    Consumer,
    ConsumerRecord,
    FencedInGroupError,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    RetriableError,
    TopicPartition,
)
from tests.copiers.old_copier import copy_as_of_old
from tests.copiers.work import (
    ABORT_PROBABILITY,
    FATAL_EXIT_CODE,
    MAX_RECORDS,
    SLEEP,
    Work,
)


class Interrupted(Exception):
    """The copier aborts the transaction on purpose."""


class Copier(RebalanceListener, ABC):
    """The loop of all kinds but `old`. Whenever a transaction does not commit, the positions return
    to the committed offsets."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.randomness = random.Random(work.number)
        self.sleepy = False
        self.consumer = Consumer(
            work.address,
            group_id=work.name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=work.session_ms,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=["range"],
            max_poll_records=MAX_RECORDS,
            **work.security,
        )

    def new_producer(self, transactional_id: str) -> Producer:
        return Producer(
            self.work.address,
            transactional_id=transactional_id,
            transaction_timeout_ms=self.work.timeout_ms,
            linger_ms=0,
            **self.work.security,
        )

    def fall_asleep_soon(self) -> None:
        self.sleepy = True

    async def run(self, stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().add_signal_handler(SLEEP, self.fall_asleep_soon)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {SLEEP})
        async with self.consumer:
            await self.consumer.subscribe([self.work.input], self)
            try:
                while not stopped.is_set():
                    await self.step()
            finally:
                await self.close()

    async def step(self) -> None:
        try:
            records = await self.consumer.poll(100)
            if records:
                await self.copy(records)
        except (AbortableError, RetriableError, Interrupted):
            await self.rewind()

    async def rewind(self) -> None:
        while True:
            try:
                await self.consumer.reset_to_last_committed()
                return
            except RetriableError:
                await asyncio.sleep(0.05)

    @abstractmethod
    async def copy(self, records: Sequence[ConsumerRecord]) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def transfer(self, producer: Producer, records: Sequence[ConsumerRecord]) -> None:
        """Copy the records in one transaction. After an AbortableError, or with ABORT_PROBABILITY
        (`Interrupted`), abort the transaction and raise the exception. Any other exception of the
        client leaves the transaction as it is."""
        await producer.begin_transaction()
        try:
            for record in records:
                await producer.send(self.work.output, record.value, partition=record.partition)
            offsets = {
                record.topic_partition: OffsetAndMetadata(record.offset + 1) for record in records
            }
            if self.sleepy:
                self.sleepy = False
                await producer.flush()
                os.kill(os.getpid(), signal.SIGSTOP)
            await self.send_offsets(producer, offsets)
            if self.randomness.random() < ABORT_PROBABILITY:
                raise Interrupted
            await self.commit(producer)
        except (AbortableError, Interrupted):
            await producer.abort_transaction()
            raise

    async def send_offsets(
        self, producer: Producer, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Send offsets with the member's group metadata. The coordinator then refuses a member that
        has lost its partitions (KIP-447)."""
        await producer.send_offsets_to_transaction(offsets, self.consumer.group_metadata())

    async def commit(self, producer: Producer) -> None:
        while True:
            try:
                await producer.commit_transaction()
                return
            except CommitOutcomeUnknown as unknown:
                if unknown.fatal:
                    raise


class TaskCopier(Copier):
    """A producer for each input partition, as before KIP-447. Unlike the old copier, it waits for
    the offsets of open transactions and sends the generation. The first rolling restart of
    an upgrade starts such copiers."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.producers: dict[int, Producer] = {}

    async def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        for _, partition in partitions:
            producer = self.producers[partition] = self.new_producer(self.work.task_id(partition))
            await producer.start()
            await producer.init_transactions()

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self.close()

    async def close(self) -> None:
        producers, self.producers = self.producers, {}
        for producer in producers.values():
            await producer.close()

    async def copy(self, records: Sequence[ConsumerRecord]) -> None:
        for partition in sorted({record.partition for record in records}):
            of_partition = [record for record in records if record.partition == partition]
            await self.transfer(self.producers[partition], of_partition)


class ConsumerCopier(Copier):
    """One producer per process. The group coordinator refuses offsets of older generations (the
    final KIP-447)."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.producer: Producer | None = None

    async def copy(self, records: Sequence[ConsumerRecord]) -> None:
        if self.producer is None:
            self.producer = self.new_producer(self.work.process_id)
            await self.producer.start()
            await self.producer.init_transactions(self.consumer)
        await self.transfer(self.producer, records)

    async def send_offsets(
        self, producer: Producer, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        await producer.send_offsets_to_transaction(offsets)

    async def close(self) -> None:
        if self.producer is not None:
            await self.producer.close()


class GroupCopier(Copier):
    """One producer per process. Each generation of the group initializes the producer anew
    (KIP-447, early draft)."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.producer: Producer | None = None
        self.initialized = False

    async def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        self.initialized = False
        if self.producer is None:
            self.producer = self.new_producer(self.work.process_id)
            await self.producer.start()
        assigned = self.consumer.assignment()
        await self.producer.init_transactions(assigned, self.work.name, generation_id)
        self.initialized = True

    async def copy(self, records: Sequence[ConsumerRecord]) -> None:
        assert self.producer is not None
        if not self.initialized:
            # The group has fenced the producer. The generation may still be the newest, so no
            # rebalance would initialize the producer again.
            metadata = self.consumer.group_metadata()
            await self.on_partitions_assigned((), metadata.generation_id)
            raise Interrupted
        try:
            await self.transfer(self.producer, records)
        except FencedInGroupError:
            self.initialized = False
            raise
        except CommitOutcomeUnknown as unknown:
            # The error is fatal for this generation only. After the AbortableError, the loop
            # returns to the committed offsets.
            self.initialized = False
            raise AbortableError("outcome unknown") from unknown

    async def send_offsets(
        self, producer: Producer, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        await producer.send_offsets_to_transaction(offsets, self.work.name)

    async def close(self) -> None:
        if self.producer is not None:
            await self.producer.close()


KINDS: dict[str, type[Copier]] = {
    "task": TaskCopier,
    "consumer": ConsumerCopier,
    "group": GroupCopier,
}


async def main(kind: str, work: Work) -> int:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    if kind == "old":
        return await copy_as_of_old(work, stopped)
    try:
        await KINDS[kind](work).run(stopped)
    except KafkaError as error:
        sys.stderr.write(f"copier {work.number} ({kind}) ends: {error!r}\n")
        return FATAL_EXIT_CODE
    return 0


if __name__ == "__main__":
    kind, address, name, *numbers, login = sys.argv[1:]
    number, timeout_ms, session_ms = map(int, numbers)
    work = Work(address, name, number, timeout_ms, session_ms, login)
    sys.exit(asyncio.run(main(kind, work)))
