"""The producer's sender. It sends the accumulator's due batches to the leaders of their partitions.

There is one task per producer. Requests are pipelined and completed by callbacks, so that each
connection keeps the order in which batches were drained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from oncelog_client.connect_failures import described
from oncelog_client.core.batch import Batch
from oncelog_client.core.batching import Accumulator
from oncelog_client.core.producer_config import ProducerConfig
from oncelog_client.core.producer_id import NO_IDENTITY
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.request_versions import ANY_VERSION, explicit_versions
from oncelog_client.errors import (
    AuthenticationError,
    FatalError,
    KafkaError,
    TimedOutError,
)
from oncelog_client.values import TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .batch_outcomes import BatchOutcomes, Delivery
from .clock import monotonic_ms
from .cluster import Cluster
from .connection import Connection
from .identity_request import IdentityRequest

_EXPLICIT = explicit_versions(ApiKey.PRODUCE)


class Sender:
    """Sends due batches to the partition leaders until cancelled."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator[Delivery],
        transaction: ProducerTransaction | None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._transaction = transaction
        self._in_flight: dict[int, int] = {}
        self._awake = asyncio.Event()
        self.outcomes = BatchOutcomes(cluster, accumulator, transaction)
        self._identity = IdentityRequest(cluster, accumulator, self.outcomes, self._identified)
        # The error after which no batch is sent any more.
        self.failure: FatalError | None = None
        # Adds partitions to the transaction, for brokers that leave this to the client (before
        # KIP-890).
        self.add_partitions: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Wake the sender, because a change may have made batches due."""
        self._awake.set()

    async def flush(self) -> None:
        """Send all buffered records now, and wait until each record that was buffered before this
        call has its outcome."""
        accumulator = self._accumulator
        mark = accumulator.last_serial
        accumulator.flushes_in_progress += 1
        self.wake()
        try:
            while (oldest := accumulator.oldest_serial()) is not None and oldest <= mark:
                await self.outcomes.progressed()
        finally:
            accumulator.flushes_in_progress -= 1

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._awake.clear()
            now_ms = monotonic_ms()
            for batch in self._accumulator.expire(now_ms):
                self.outcomes.fail(batch, self._too_late(batch))
            if self._has_identity():
                # `_send_ready` and `_idle_ms` use the same time. Otherwise both would miss a batch
                # that falls due between two readings of the clock.
                now_ms = monotonic_ms()
                self._send_ready(now_ms)
            timeout_ms = self._idle_ms(now_ms)
            try:
                async with asyncio.timeout(timeout_ms if timeout_ms is None else timeout_ms / 1000):
                    await self._awake.wait()
            except TimeoutError:
                pass

    def _too_late(self, batch: Batch[Delivery]) -> TimedOutError:
        """Return the error of a batch older than `delivery_timeout_ms`, with the cause of its
        wait."""
        limit = f"delivery_timeout_ms ({self._config.delivery_timeout_ms:g})"
        message = f"{batch.partition}: not acknowledged within {limit}"
        reason = self._obstacle(batch)
        error = TimedOutError(f"{message}: {reason}" if reason else message)
        error.not_written = not batch.was_sent
        error.__cause__ = batch.refusal
        return error

    def _obstacle(self, batch: Batch[Delivery]) -> str:
        """Return the reason why a batch is not written yet. The text is empty if the reason is
        unknown."""
        if self._cluster.metadata.leader(batch.partition) is None:
            return str(self._cluster.metadata.no_leader(batch.partition))
        return described(self._cluster.outage) or str(batch.refusal or "")

    def obstacle(self) -> str:
        """Return the reason why a batch is not written yet, with the partition of the batch. If
        several batches have a known reason, return that of the oldest batch. The text is empty if
        no reason is known."""
        for batch in sorted(self._accumulator.batches(), key=lambda batch: batch.serial):
            reason = self._obstacle(batch)
            if reason:
                named = str(batch.partition) in reason
                return reason if named else f"{batch.partition}: {reason}"
        return ""

    def ended(self, work: asyncio.Task[None]) -> None:
        """Handle the end of the task of `run`, or of a task that `run` has started. If the task
        ended with an exception, that is a defect: all batches fail."""
        cause = None if work.cancelled() else work.exception()
        if cause is None:
            return
        self.failure = FatalError(f"the producer cannot send any more: {cause!r}")
        self.failure.__cause__ = cause
        if self._transaction is not None:
            self._transaction.fail_fatal(self.failure)
        self.outcomes.fail_all(self.failure, in_flight=True)

    # -- identity

    def _has_identity(self) -> bool:
        """Return True if the batches have a producer id, or need none. If not, request one, unless
        `init_transactions` gets the id."""
        if not self._config.enable_idempotence or self._accumulator.identity != NO_IDENTITY:
            return True
        if self._transaction is None and self._accumulator.partitions():
            self._identity.begin()
        return False

    def _identified(self, attempt: asyncio.Task[None]) -> None:
        self.ended(attempt)
        self.wake()

    # -- sending

    def _send_ready(self, now_ms: float) -> None:
        leaders: dict[int, list[TopicPartition]] = {}
        transaction = self._transaction
        if transaction is not None:
            if transaction.is_over and transaction.error is not None:
                # No batch will be sent any more, so the deliveries fail now.
                self.outcomes.fail_all(transaction.error)
                return
            if transaction.partitions_to_add():
                self.add_partitions()
        for partition in self._accumulator.partitions():
            if transaction is not None and not transaction.may_send(partition):
                continue
            leader = self._cluster.metadata.leader(partition)
            if leader is None:
                self._cluster.refresh_soon()
            else:
                leaders.setdefault(leader, []).append(partition)
        for leader, partitions in leaders.items():
            self._send_to(leader, partitions, now_ms)

    def _send_to(self, leader: int, partitions: list[TopicPartition], now_ms: float) -> None:
        limit = self._config.max_in_flight_requests_per_connection
        connection: Connection | None = None
        while self._in_flight.get(leader, 0) < limit:
            if not any(self._is_due(partition, now_ms) for partition in partitions):
                return
            if connection is None:
                connection = self._cluster.ready_connection(leader, "", self.wake)
            if connection is None:
                if (refusal := self._cluster.refusal(leader)) is not None:
                    self._fail_unauthenticated(refusal)
                return
            if not connection.writable:
                connection.when_writable(self.wake)
                return
            batches = self._accumulator.drain(partitions, now_ms, self._config.max_request_size)
            if batches:
                self._send(leader, connection, batches)
            elif not self._accumulator.unsendable:
                return
            self._fail_unsendable()

    def _is_due(self, partition: TopicPartition, now_ms: float) -> bool:
        ready_at_ms = self._accumulator.ready_at_ms(partition, now_ms)
        return ready_at_ms is not None and ready_at_ms <= now_ms

    def _fail_unauthenticated(self, error: AuthenticationError) -> None:
        """Fail the batches that are not in flight. A retry would not help: every connection has the
        same credentials."""
        if self._transaction is not None:
            self._transaction.batch_failed(error)
        self.outcomes.fail_all(error)

    def _fail_unsendable(self) -> None:
        unsendable, self._accumulator.unsendable = self._accumulator.unsendable, []
        for batch, cause in unsendable:
            error = KafkaError(f"{batch.partition}: cannot be encoded: {cause!r}")
            error.not_written = True
            error.__cause__ = cause
            self.outcomes.fail(batch, error)

    def _send(self, leader: int, connection: Connection, batches: list[Batch[Delivery]]) -> None:
        request = self._request(batches)
        explicit = self._transaction is not None and not self._transaction.implicit
        try:
            if self._config.acks == 0:
                connection.start_unanswered(request)
                for batch in batches:
                    self.outcomes.written(batch, -1, -1)
                self.outcomes.wake_progressed()
                return
            response = connection.start(request, versions=_EXPLICIT if explicit else ANY_VERSION)
        except KafkaError as error:
            self.outcomes.lost(batches, error)
            self.wake()
            return
        self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
        response.add_done_callback(partial(self._responded, leader, batches))

    def _request(self, batches: list[Batch[Delivery]]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, index = batch.partition
            row = topics.get(name)
            if row is None:
                row = topics[name] = TopicProduceData(name=name)
            row.partition_data.append(PartitionProduceData(index=index, records=batch.wire))
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
            transaction_group_id=None if self._transaction is None else self._transaction.group_id,
        )

    def _idle_ms(self, now_ms: float) -> float | None:
        """Return the time from `now_ms` until the next batch falls due or expires, or None if there
        is no batch."""
        accumulator, transaction = self._accumulator, self._transaction
        times = [
            self._cluster.backoff.initial_ms + now_ms
            if self._cluster.metadata.leader(partition) is None
            else accumulator.ready_at_ms(partition, now_ms)
            for partition in accumulator.partitions()
            if transaction is None or transaction.may_send(partition)
        ]
        # Batches that are due already are left out. They wait for a connection, for room in the
        # connection or for a place in flight. Each of these events wakes the sender.
        times = [time for time in times if time is not None and time > now_ms]
        times.append(accumulator.next_expiry_ms())
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else max(due - now_ms, 0)

    # -- responses

    def _responded(
        self, leader: int, batches: list[Batch[Delivery]], response: asyncio.Future[Any]
    ) -> None:
        self._in_flight[leader] -= 1
        self.wake()
        error = None if response.cancelled() else response.exception()
        if response.cancelled() or error is not None:
            failure = error if isinstance(error, KafkaError) else TimedOutError("cancelled")
            self.outcomes.lost(batches, failure)
        else:
            self.outcomes.responded(batches, response.result())
