"""The outcomes of sent batches: the deliveries of records that are written or refused, and the
batches that are sent again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncelog_client.core.batch import Batch
from oncelog_client.core.batching import Accumulator, SendOutcome
from oncelog_client.core.leader_hints import hints_of
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.verdicts import NOT_WRITTEN
from oncelog_client.errors import (
    FatalError,
    IncompleteResponseError,
    KafkaError,
    StaleLeaderError,
    error_for,
)
from oncelog_client.values import RecordMetadata, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from oncelog_protocol.records.record import EncodedRecords

from .clock import monotonic_ms
from .cluster import Cluster
from .randomness import fraction

Delivery = asyncio.Future[RecordMetadata]

# The logger has the sender's name, because applications filter by it.
log = logging.getLogger("oncelog_client.io.sender")

# Retriable errors that a new leader usually does not resolve. They are logged at once.
_LASTING: Final = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
# Maximum number of refused records of a batch that an error message names.
NAMED_RECORDS: Final = 3
_WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class BatchOutcomes:
    """Takes the responses to Produce. A batch that is written or refused completes its deliveries.
    Any other batch goes back to the accumulator, which decides when the batch is sent again."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator[Delivery],
        transaction: ProducerTransaction | None,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._transaction = transaction
        self._progress: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # By partition: the error of `_LASTING` after which a batch is retried. See `refusals`.
        self._refusals: dict[TopicPartition, KafkaError] = {}

    async def progressed(self) -> None:
        """Wait until a batch has its outcome, or a request has ended."""
        await asyncio.shield(self._progress)

    def wake_progressed(self) -> None:
        """Wake the callers of `progressed`."""
        self._progress.set_result(None)
        self._progress = asyncio.get_running_loop().create_future()

    @property
    def refusals(self) -> tuple[KafkaError, ...]:
        """Return the error of each partition with a batch that is retried after an error of
        `_LASTING`."""
        return tuple(self._refusals.values())

    def responded(self, batches: list[Batch[Delivery]], response: ProduceResponse) -> None:
        """Take the response to a request with these batches."""
        moved = self._cluster.learn_leaders(hints_of(response))
        rows = {
            (topic.name, row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        self._each(batches, lambda batch: self._take(batch, rows.get(batch.partition), moved))

    def lost(self, batches: list[Batch[Delivery]], error: KafkaError) -> None:
        """Take the error of a request with these batches that has no response."""
        self._cluster.refresh_soon()
        self._each(batches, lambda batch: self._refused(batch, error))

    def _take(
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
            self.written(batch, row.base_offset, row.log_append_time_ms)
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

    def _refused(
        self, batch: Batch[Delivery], error: KafkaError, *, is_moved: bool = False
    ) -> None:
        if isinstance(error, StaleLeaderError) and not is_moved:
            self._cluster.refresh_soon()
        batch.refusal = error
        code = error.code if isinstance(error.code, ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
        batch.is_unresolved = batch.is_unresolved or code not in NOT_WRITTEN
        outcome = self._accumulator.failed(
            batch, code, monotonic_ms(), fraction(), is_moved=is_moved
        )
        if outcome is SendOutcome.RETRIED and code in _LASTING:
            if batch.partition not in self._refusals:
                log.warning("%s; trying again", error)
            self._refusals[batch.partition] = error
        if outcome is SendOutcome.FAILED:
            error.not_written = not batch.is_unresolved
            self.fail(batch, error)

    def written(self, batch: Batch[Delivery], base_offset: int, log_append_time_ms: int) -> None:
        """Complete the deliveries of a batch that is written. The offset is -1 if it is unknown."""
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

    def fail(self, batch: Batch[Delivery], error: KafkaError) -> None:
        """Fail a batch that is not sent again, and with it the transaction."""
        self._refusals.pop(batch.partition, None)
        try:
            if self._transaction is not None:
                self._transaction.batch_failed(error)
        finally:
            self.fail_deliveries(batch, error)

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
