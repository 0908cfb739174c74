"""The producer's sender. It sends the accumulator's due batches and completes records' futures.

There is one task per producer. Requests are pipelined and completed by callbacks, so that each
connection keeps the order in which batches were drained.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from oncelog_client.connect_failures import described
from oncelog_client.core.batch import Batch
from oncelog_client.core.batching import Accumulator, SendOutcome
from oncelog_client.core.leader_hints import hints_of
from oncelog_client.core.producer_config import ProducerConfig
from oncelog_client.core.producer_id import NO_IDENTITY, ProducerIdAndEpoch
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.request_versions import ANY_VERSION, explicit_versions
from oncelog_client.core.verdicts import NOT_WRITTEN
from oncelog_client.errors import (
    AuthenticationError,
    FatalError,
    IncompleteResponseError,
    KafkaError,
    RetriableError,
    StaleLeaderError,
    TimedOutError,
    check,
    error_for,
)
from oncelog_client.values import RecordMetadata, TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog_protocol.records.record import EncodedRecords

from .clock import monotonic_ms
from .cluster import Cluster
from .connection import Connection
from .randomness import fraction

Delivery = asyncio.Future[RecordMetadata]

_EXPLICIT = explicit_versions(ApiKey.PRODUCE)

log = logging.getLogger(__name__)

# Retriable errors that a new leader usually does not resolve. They are logged at once.
_LASTING = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
# Maximum number of refused records of a batch that an error message names.
NAMED_RECORDS = 3
_WRITTEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


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
        self._identity_failures = 0
        self._identifying: asyncio.Task[None] | None = None
        self._awake = asyncio.Event()
        self._progress: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # By partition: the error of `_LASTING` after which a batch is retried. See `refusals`.
        self._refusals: dict[TopicPartition, KafkaError] = {}
        # The error after which no batch is sent any more.
        self.failure: FatalError | None = None
        # Adds partitions to the transaction, for brokers that leave this to the client (before
        # KIP-890).
        self.add_partitions: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Wake the sender, because a change may have made batches due."""
        self._awake.set()

    async def progressed(self) -> None:
        """Wait until a batch has its outcome, or a request has ended."""
        await asyncio.shield(self._progress)

    def wake_progressed(self) -> None:
        """Wake the callers of `progressed`."""
        self._progress.set_result(None)
        self._progress = asyncio.get_running_loop().create_future()

    async def flush(self) -> None:
        """Send all buffered records now, and wait until each record that was buffered before this
        call has its outcome."""
        accumulator = self._accumulator
        mark = accumulator.last_serial
        accumulator.flushes_in_progress += 1
        self.wake()
        try:
            while (oldest := accumulator.oldest_serial()) is not None and oldest <= mark:
                await self.progressed()
        finally:
            accumulator.flushes_in_progress -= 1

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._awake.clear()
            now_ms = monotonic_ms()
            for batch in self._accumulator.expire(now_ms):
                self._fail(batch, self._too_late(batch))
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
        self.fail_all(self.failure, in_flight=True)

    # -- identity

    def _has_identity(self) -> bool:
        """Return True if the batches have a producer id, or need none. If not, request one, unless
        `init_transactions` gets the id.

        The call does not wait for the response, because batches may expire meanwhile.
        """
        if not self._config.enable_idempotence or self._accumulator.identity != NO_IDENTITY:
            return True
        wanted = self._transaction is None and self._accumulator.partitions()
        if wanted and self._identifying is None:
            self._identifying = self._cluster.spawn(self._identify())
            self._identifying.add_done_callback(self._identified)
        return False

    async def _identify(self) -> None:
        """Get a producer id. After a failure wait a little."""
        try:
            response = await self._cluster.call_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
                InitProducerIdResponse,
            )
            check(response.error_code)
        except RetriableError:
            self._identity_failures += 1
            delay_ms = self._cluster.backoff.delay_ms(self._identity_failures, fraction())
            await asyncio.sleep(delay_ms / 1000)
            return
        except KafkaError as error:
            self.fail_all(error)
            return
        self._identity_failures = 0
        self._accumulator.adopt(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))

    def _identified(self, work: asyncio.Task[None]) -> None:
        self._identifying = None
        self.ended(work)
        self.wake()

    # -- sending

    def _send_ready(self, now_ms: float) -> None:
        leaders: dict[int, list[TopicPartition]] = {}
        transaction = self._transaction
        if transaction is not None:
            if transaction.is_over and transaction.error is not None:
                # No batch will be sent any more, so the deliveries fail now.
                self.fail_all(transaction.error)
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
        self.fail_all(error)

    def _fail_unsendable(self) -> None:
        unsendable, self._accumulator.unsendable = self._accumulator.unsendable, []
        for batch, cause in unsendable:
            error = KafkaError(f"{batch.partition}: cannot be encoded: {cause!r}")
            error.not_written = True
            error.__cause__ = cause
            self._fail(batch, error)

    def _send(self, leader: int, connection: Connection, batches: list[Batch[Delivery]]) -> None:
        request = self._request(batches)
        explicit = self._transaction is not None and not self._transaction.implicit
        try:
            if self._config.acks == 0:
                connection.start_unanswered(request)
                for batch in batches:
                    self._succeed(batch, -1, -1)
                self.wake_progressed()
                return
            answer = connection.start(request, versions=_EXPLICIT if explicit else ANY_VERSION)
        except KafkaError as error:
            self._all_failed(batches, error)
            return
        self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
        answer.add_done_callback(partial(self._answered, leader, batches))

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

    def _answered(
        self, leader: int, batches: list[Batch[Delivery]], answer: asyncio.Future[Any]
    ) -> None:
        self._in_flight[leader] -= 1
        self.wake()
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or error is not None:
            failure = error if isinstance(error, KafkaError) else TimedOutError("cancelled")
            self._all_failed(batches, failure)
            return
        response: ProduceResponse = answer.result()
        moved = self._cluster.learn_leaders(hints_of(response))
        rows = {
            (topic.name, row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        self._each(batches, lambda batch: self._taken_up(batch, rows.get(batch.partition), moved))

    def _taken_up(
        self,
        batch: Batch[Delivery],
        row: PartitionProduceResponse | None,
        moved: frozenset[TopicPartition],
    ) -> None:
        if row is None:
            # The batch may have been written. So this error is the same as for a broken connection.
            message = f"{batch.partition}: the response to PRODUCE lacks this partition"
            self._refused(batch, IncompleteResponseError(message, ErrorCode.NETWORK_EXCEPTION))
        elif row.error_code in _WRITTEN:
            self._succeed(batch, row.base_offset, row.log_append_time_ms)
        else:
            is_moved = batch.partition in moved
            self._refused(batch, error_for(row.error_code, _message(batch, row)), is_moved=is_moved)

    def _each(
        self, batches: list[Batch[Delivery]], take: Callable[[Batch[Delivery]], None]
    ) -> None:
        """Call `take` with every batch of a response. If it raises an exception, that is a defect:
        the batch fails, and the other batches are still handled."""
        for batch in batches:
            try:
                take(batch)
            except Exception as cause:
                error = FatalError(
                    f"{batch.partition}: the response could not be handled: {cause!r}"
                )
                error.__cause__ = cause
                if self._transaction is not None:
                    self._transaction.fail_fatal(error)
                self._accumulator.give_up(batch)
                self.fail_deliveries(batch, error)
        self.wake_progressed()

    def _all_failed(self, batches: list[Batch[Delivery]], error: KafkaError) -> None:
        self._cluster.refresh_soon()
        self._each(batches, lambda batch: self._refused(batch, error))
        self.wake()

    def _refused(
        self, batch: Batch[Delivery], error: KafkaError, *, is_moved: bool = False
    ) -> None:
        if isinstance(error, StaleLeaderError) and not is_moved:
            self._cluster.refresh_soon()
        batch.refusal = error
        code = error.code if isinstance(error.code, ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
        batch.is_doubtful = batch.is_doubtful or code not in NOT_WRITTEN
        outcome = self._accumulator.failed(
            batch, code, monotonic_ms(), fraction(), is_moved=is_moved
        )
        if outcome is SendOutcome.RETRIED and code in _LASTING:
            if batch.partition not in self._refusals:
                log.warning("%s; trying again", error)
            self._refusals[batch.partition] = error
        if outcome is SendOutcome.FAILED:
            error.not_written = not batch.is_doubtful
            self._fail(batch, error)

    def _succeed(self, batch: Batch[Delivery], base_offset: int, log_append_time_ms: int) -> None:
        self._accumulator.succeeded(batch)
        self._refusals.pop(batch.partition, None)
        topic, partition = batch.partition
        if batch.encoded is not None:
            self._complete(batch, batch.encoded, base_offset, log_append_time_ms)
            return
        offset = base_offset
        step = 1 if base_offset >= 0 else 0
        for record, delivery in zip(batch.records, batch.deliveries, strict=True):
            if not delivery.done():
                timestamp = record.timestamp if log_append_time_ms < 0 else log_append_time_ms
                delivery.set_result(RecordMetadata(topic, partition, offset, timestamp))
            offset += step

    def _complete(
        self,
        batch: Batch[Delivery],
        encoded: EncodedRecords,
        base_offset: int,
        log_append_time_ms: int,
    ) -> None:
        """Complete the single delivery of an encoded batch, with the offset of its last record."""
        (delivery,) = batch.deliveries
        if batch.completes_delivery and not delivery.done():
            offset = -1 if base_offset < 0 else base_offset + encoded.records_count - 1
            timestamp = encoded.max_timestamp if log_append_time_ms < 0 else log_append_time_ms
            delivery.set_result(RecordMetadata(*batch.partition, offset, timestamp))

    def _fail(self, batch: Batch[Delivery], error: KafkaError) -> None:
        self._refusals.pop(batch.partition, None)
        try:
            if self._transaction is not None:
                self._transaction.batch_failed(error)
        finally:
            self.fail_deliveries(batch, error)

    @property
    def refusals(self) -> tuple[KafkaError, ...]:
        """Return the error of each partition with a batch that is retried after an error of
        `_LASTING`."""
        return tuple(self._refusals.values())

    def fail_deliveries(self, batch: Batch[Delivery], error: KafkaError) -> None:
        """Complete the deliveries of a batch with an error."""
        for delivery in batch.deliveries:
            if not delivery.done():
                delivery.set_exception(error)
                if self._transaction is not None:
                    # Mark the exception as retrieved, so that asyncio does not warn. The commit
                    # raises the error as well, so the application need not check each future.
                    delivery.exception()
        self.wake_progressed()

    def fail_all(self, error: KafkaError, *, in_flight: bool = False) -> None:
        """Fail all batches that are not in flight. With `in_flight` also fail the batches in
        flight."""
        accumulator = self._accumulator
        for batch in accumulator.drop_all() if in_flight else accumulator.drop_unsent():
            self.fail_deliveries(batch, error)


def _message(batch: Batch[Delivery], row: PartitionProduceResponse) -> str:
    """Return the partition and the reason of its refusal. If there are errors of single records,
    the broker's message for the whole batch is left out, because it may repeat these errors."""
    reasons: dict[str, list[str]] = {}
    for error in row.record_errors:
        if error.batch_index_error_message:
            reasons.setdefault(error.batch_index_error_message, []).append(str(error.batch_index))
    details = [_of_records(numbers, reason) for reason, numbers in reasons.items()]
    text = "; ".join(details) or row.error_message
    return f"{batch.partition}: {text}" if text else str(batch.partition)


def _of_records(numbers: list[str], reason: str) -> str:
    """Return the reason for a batch's refusal, and the records that the reason applies to."""
    named = ", ".join(numbers[:NAMED_RECORDS])
    more = len(numbers) - NAMED_RECORDS
    which = f"{named} and {more} more" if more > 0 else named
    return f"record{'s' if len(numbers) > 1 else ''} {which}: {reason}"
