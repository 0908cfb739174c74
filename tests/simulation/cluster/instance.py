"""An instance of a transactional id in a script: a producer in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog_client import (
    CommitOutcomeUnknown,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    RecordMetadata,
    TopicPartition,
)
from oncelog_client.core.prepared_txn_state import PreparedTxnState
from tests.simulation.base_world import BaseWorld
from tests.simulation.checking.history import Outcome
from tests.simulation.process import Process
from tests.simulation.recorder import Attempt

# Longer than the fail-over of a broker, and shorter than the timeout of a transaction.
CALL_MS = 40_000


class Instance:
    """A producer of a transactional id, which repeats its requests over a fail-over. `values` are
    the records of its transactions, in their order. `two_phase`: its transactions have no
    timeout, and may be prepared (KIP-939)."""

    def __init__(
        self, world: BaseWorld, name: str, transactional_id: str, *, two_phase: bool = False
    ) -> None:
        self._world = world
        self._process: Process = world.new_process(name)
        self._transactional_id = transactional_id
        self._two_phase = two_phase
        self._producer: Producer | None = None
        self.values: list[int] = []
        self._open: Attempt | None = None

    async def start(self, *, keep_prepared: bool = False) -> None:
        """Start, and fence all earlier instances. With `keep_prepared`, their open transaction
        stays open."""
        await self._process.run(self._start(keep_prepared))

    async def _start(self, keep_prepared: bool) -> None:
        self._producer = Producer(
            self._world.bootstrap,
            client_id=self._process.name,
            transactional_id=self._transactional_id,
            **self._timeout(),
            request_timeout_ms=800,
            retry_backoff_ms=10,
            retry_backoff_max_ms=100,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=100,
            socket_connection_setup_timeout_ms=500,
            max_block_ms=CALL_MS,
            delivery_timeout_ms=CALL_MS,
        )
        await self._producer.start()
        await self._producer.init_transactions(keep_prepared_txn=keep_prepared)

    def _timeout(self) -> dict[str, Any]:
        if self._two_phase:
            return {"transaction_two_phase_commit_enable": True}
        return {"transaction_timeout_ms": self._world.options.transaction_timeout_ms}

    @property
    def identity(self) -> tuple[int, int]:
        """Return the producer id and epoch."""
        assert self._producer is not None
        producer_id, epoch = self._producer._accumulator.identity
        return producer_id, epoch

    async def transaction(
        self,
        places: Sequence[TopicPartition],
        *,
        offset: OffsetOfGroup | None = None,
        committed: bool = True,
    ) -> None:
        """Send a record to each place, one after the other, then an offset of a group, and end the
        transaction. Raises KafkaError if any of this fails."""
        await self._process.run(self._transaction(places, offset, committed))

    async def _transaction(
        self, places: Sequence[TopicPartition], offset: OffsetOfGroup | None, committed: bool
    ) -> None:
        producer = self._producer
        assert producer is not None
        attempt = self._world.recorder.begin(self._process, is_transaction=True)
        await producer.begin_transaction()
        for place in places:
            await self._send(producer, attempt, place)
        if offset is not None:
            group, place, number = offset
            await producer.send_offsets_to_transaction({place: OffsetAndMetadata(number)}, group)
        attempt.in_doubt = committed
        if committed:
            await _commit(producer)
        else:
            await producer.abort_transaction()
        attempt.end(Outcome.OK if committed else Outcome.FAIL)

    async def _send(self, producer: Producer, attempt: Attempt, place: TopicPartition) -> None:
        value = self._world.recorder.next_value()
        self.values.append(value)
        step = attempt.send(str(place), value)
        ticket = await producer.send(place.topic, b"%d" % value, partition=place.partition)
        found: RecordMetadata = await ticket
        attempt.acked(step, found.offset)

    async def open(self, places: Sequence[TopicPartition]) -> None:
        """Begin a transaction with a record in each place, and leave it open."""
        await self._process.run(self._begin(places))

    async def _begin(self, places: Sequence[TopicPartition]) -> None:
        assert self._producer is not None
        attempt = self._open = self._world.recorder.begin(self._process, is_transaction=True)
        await self._producer.begin_transaction()
        for place in places:
            await self._send(self._producer, attempt, place)

    @property
    def has_open(self) -> bool:
        return self._open is not None

    async def commit(self) -> None:
        """Commit the open transaction."""
        assert self._producer is not None
        assert self._open is not None
        self._open.in_doubt = True
        await self._process.run(_commit(self._producer))
        self._open.end(Outcome.OK)
        self._open = None

    async def prepare(self) -> PreparedTxnState:
        """Prepare the open transaction. Another instance ends it."""
        assert self._producer is not None
        assert self._open is not None
        found: list[PreparedTxnState] = []

        async def prepare(producer: Producer) -> None:
            found.append(await producer.prepare_transaction())

        await self._process.run(prepare(self._producer))
        self._open.outlive()
        self._open.end(Outcome.OK)
        self._open = None
        return found[0]

    async def complete(self, prepared: PreparedTxnState) -> None:
        """Commit the transaction that an earlier instance has prepared."""
        assert self._producer is not None
        await self._process.run(self._producer.complete_transaction(prepared))

    async def is_fenced(self, place: TopicPartition) -> bool:
        """Return True if a transaction of this instance is refused because of a newer one."""
        return isinstance(await self.refusal(place), ProducerFencedError)

    async def refusal(self, place: TopicPartition) -> KafkaError | None:
        """Return the error that refuses a transaction of this instance, None if it is committed."""
        refusals: list[KafkaError] = []

        async def attempt() -> None:
            try:
                await self._transaction([place], None, True)
            except KafkaError as error:
                refusals.append(error)

        await self._process.run(attempt())
        return refusals[0] if refusals else None

    async def end(self) -> None:
        assert self._producer is not None
        await self._process.run(self._producer.close(timeout_ms=500))
        self._process.die()


# A group, a partition, and an offset of it.
OffsetOfGroup = tuple[str, TopicPartition, int]


async def _commit(producer: Producer) -> None:
    """Commit, and repeat it once if the outcome is unknown. Raises KafkaError if the outcome is
    still unknown."""
    try:
        await producer.commit_transaction()
    except CommitOutcomeUnknown as unknown:
        if unknown.fatal:
            raise
        await producer.commit_transaction()
