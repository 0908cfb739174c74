"""Collects records into batches per partition, and decides when a batch may be sent (KIP-98,
KIP-360, KIP-679). Two rules keep the order in a partition. A failed batch is sent again first and
alone. No new batch is sent while a dropped batch has left a gap in the sequence, because the
dropped batch may have been written or not. A batch that may have been written is sent again
unchanged, even after a gap: with a new epoch the batch could be written twice. Time is an argument,
and the sender owns the sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Generic, TypeVar

from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import RETRIABLE, ErrorCode
from oncelog_protocol.records.batch import HEADER_SIZE, add_to_sequence
from oncelog_protocol.records.record import EncodedRecords, NewRecord

from .batch import Batch, BatchState, record_size
from .partition_queue import BatchingConfig, PartitionQueue
from .producer_id import NO_IDENTITY, ProducerIdAndEpoch

T = TypeVar("T")

# Below this epoch an idempotent producer bumps its own epoch. At this epoch the producer requests a
# new producer id (KIP-360).
_LAST_EPOCH: Final = (1 << 15) - 1

_SEQUENCE_ERRORS: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)


class SendOutcome(Enum):
    """The outcome of a failed attempt to send a batch."""

    RETRIED = "retried"
    SPLIT = "split"
    FAILED = "failed"
    # The batch was already done before this response: its deliveries are completed.
    FORGOTTEN = "forgotten"


class Accumulator(Generic[T]):
    """All batches of one producer that are not done yet."""

    def __init__(self, config: BatchingConfig) -> None:
        self.config = config
        self.identity = NO_IDENTITY
        self.buffered_bytes = 0
        # Number of callers that wait for room or for a flush. Batches do not linger while callers
        # wait.
        self.flushes_in_progress = 0
        # No batch is retried while a transaction is being aborted.
        self.aborting = False
        self.last_serial = 0
        # Batches that cannot be encoded: the caller fails their deliveries.
        self.unsendable: list[tuple[Batch[T], Exception]] = []
        self._queues: dict[TopicPartition, PartitionQueue[T]] = {}
        self._unresolved: set[TopicPartition] = set()
        self._turn = 0

    # -- filling

    def has_room(self, size_bytes: int) -> bool:
        """Return True if a record of `size_bytes` fits into `buffer_memory`."""
        return self.buffered_bytes + size_bytes <= self.config.buffer_memory

    def append(
        self, partition: TopicPartition, record: NewRecord, delivery: T, now_ms: float
    ) -> bool:
        """Buffer a record. Return True if the record has closed a batch, which is then ready to be
        sent."""
        queue = self._queue(partition)
        size = record_size(record)
        self.buffered_bytes += size
        closed = False
        batch = queue.waiting[-1] if queue.waiting else None
        if batch is None or batch.state is not BatchState.OPEN:
            batch = None
        elif batch.size_bytes + size > self.config.batch_size:
            batch.state = BatchState.FULL
            batch, closed = None, True
        if batch is None:
            batch = self._new_batch(queue, partition, now_ms)
        batch.add(record, size, delivery)
        if batch.size_bytes >= self.config.batch_size:
            batch.state = BatchState.FULL
            closed = True
        return closed

    def append_encoded(
        self, partition: TopicPartition, records: EncodedRecords, delivery: T, now_ms: float
    ) -> None:
        """Buffer a complete batch after the buffered batches. The batch is ready to be sent."""
        queue = self._queue(partition)
        batch = self._new_batch(queue, partition, now_ms)
        batch.give(records, delivery)
        batch.state = BatchState.FULL
        self.buffered_bytes += len(records.body)

    def _queue(self, partition: TopicPartition) -> PartitionQueue[T]:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue()
        return queue

    def _new_batch(
        self, queue: PartitionQueue[T], partition: TopicPartition, now_ms: float
    ) -> Batch[T]:
        self.last_serial += 1
        batch: Batch[T] = Batch(partition, self.last_serial, now_ms)
        queue.waiting.append(batch)
        return batch

    def queued(self, partition: TopicPartition) -> int:
        """Return the number of a partition's unfinished batches, sent or not."""
        queue = self._queues.get(partition)
        return 0 if queue is None else len(queue.waiting) + len(queue.sent)

    def batches(self) -> Iterator[Batch[T]]:
        """Yield every unfinished batch, by partition, in order."""
        for queue in self._queues.values():
            yield from queue.sent
            yield from queue.waiting

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions with unfinished batches."""
        return [key for key, queue in self._queues.items() if queue.sent or queue.waiting]

    # -- leaving

    def ready_at_ms(self, partition: TopicPartition, now_ms: float) -> float | None:
        """Return the time from which the partition's next batch may be sent, or None if there is no
        batch or the batch waits for an event. A time in the past means that the batch may be sent
        at once."""
        queue = self._queues.get(partition)
        if queue is None:
            return None
        batch = queue.next_batch(self.config, self.identity)
        if batch is None:
            return None
        if batch.state is BatchState.RETRY:
            return batch.retry_at_ms
        if batch.state is BatchState.FULL or len(queue.waiting) > 1 or self.flushes_in_progress:
            return now_ms
        return batch.created_ms + self.config.linger_ms

    def drain(
        self, partitions: Iterable[TopicPartition], now_ms: float, max_bytes: int
    ) -> list[Batch[T]]:
        """Return encoded batches that are due: at most one of each partition, and at most
        `max_bytes` in all, but at least one batch. Each call begins with the next partition, so
        that every partition gets its turn. A batch that cannot be encoded is added to
        `unsendable`."""
        keys = list(partitions)
        if not keys:
            return []
        self._turn = (self._turn + 1) % len(keys)
        drained: list[Batch[T]] = []
        size = 0
        for key in keys[self._turn :] + keys[: self._turn]:
            ready_at_ms = self.ready_at_ms(key, now_ms)
            if ready_at_ms is None or ready_at_ms > now_ms:
                continue
            queue = self._queues[key]
            batch = queue.next_batch(self.config, self.identity)
            if batch is None or (drained and size + batch.size_bytes > max_bytes):
                continue
            try:
                self._launch(queue, batch)
            except Exception as error:
                self._finish(batch, lost=True)
                self.unsendable.append((batch, error))
                continue
            drained.append(batch)
            size += len(batch.wire)
        return drained

    def _launch(self, queue: PartitionQueue[T], batch: Batch[T]) -> None:
        config = self.config
        is_new = batch.state is not BatchState.RETRY
        if is_new and config.idempotent:
            if queue.identity != self.identity:
                queue.identity, queue.next_sequence = self.identity, 0
            batch.number(queue.identity, queue.next_sequence)
        # Encoding may fail, so it comes before the batch leaves `waiting`.
        batch.encode(
            config.compression, config.compression_level, transactional=config.transactional
        )
        if is_new:
            queue.waiting.popleft()
            queue.next_sequence = add_to_sequence(queue.next_sequence, batch.count)
            queue.sent.append(batch)
        batch.state = BatchState.IN_FLIGHT
        batch.attempts += 1
        batch.maybe_written = True

    # -- responses

    def succeeded(self, batch: Batch[T]) -> None:
        """Complete a batch that the broker has written."""
        queue = self._queues[batch.partition]
        queue.known_producer = batch.identity.producer_id
        self._finish(batch)

    def failed(
        self,
        batch: Batch[T],
        code: ErrorCode,
        now_ms: float,
        randomness: float,
        *,
        is_moved: bool = False,
    ) -> SendOutcome:
        """Handle a batch that failed with `code` (NETWORK_EXCEPTION without a response).

        If the result is FAILED, the caller fails the batch's deliveries. `randomness` (0..1)
        jitters the back-off. `is_moved`: the response has named a new leader, so the batch is sent
        again at once (KIP-951).
        """
        if batch.state is BatchState.DONE:
            return SendOutcome.FORGOTTEN
        queue = self._queues[batch.partition]
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not self.aborting:
            position = queue.sent.index(batch)
            queue.sent[position : position + 1] = batch.halves()
            batch.state = BatchState.DONE
            self._renumber_unresolved()
            return SendOutcome.SPLIT
        if self._may_retry(queue, batch, code, now_ms):
            # A batch with a sequence out of order is not in the log, whatever happened to its
            # earlier attempts: the broker would have recognized a duplicate.
            batch.maybe_written = code not in _SEQUENCE_ERRORS
            failures = batch.attempts
            if not batch.maybe_written:
                # An earlier batch or a new epoch resolves the error, so the first retry is sent at
                # once.
                failures = batch.sequence_errors
                batch.sequence_errors += 1
            delay_ms = self.config.backoff.delay_ms(failures, randomness)
            batch.state = BatchState.RETRY
            batch.retry_at_ms = now_ms if is_moved else now_ms + delay_ms
            self._renumber_unresolved()
            return SendOutcome.RETRIED
        self._finish(batch, lost=True)
        return SendOutcome.FAILED

    def _may_retry(
        self, queue: PartitionQueue[T], batch: Batch[T], code: ErrorCode, now_ms: float
    ) -> bool:
        config = self.config
        if self.aborting or now_ms >= batch.created_ms + config.delivery_timeout_ms:
            return False
        if config.idempotent and code in _SEQUENCE_ERRORS:
            if queue.is_unresolved or queue.sent[0] is not batch:
                # The error has only one cause: an earlier batch is missing. The earlier batch is
                # sent again before this batch. If the earlier batch was dropped, a new epoch closes
                # the gap.
                return True
            if config.transactional:
                return False
            # The broker has lost this producer's state: restart the sequences with the next epoch
            # (KIP-360).
            self._mark_unresolved(batch.partition)
            return True
        return code in RETRIABLE and batch.attempts <= config.retries

    def _finish(self, batch: Batch[T], *, lost: bool = False) -> None:
        if batch.state is BatchState.DONE:
            return
        queue = self._queues[batch.partition]
        if batch in queue.sent:
            queue.sent.remove(batch)
        else:
            queue.waiting.remove(batch)
        batch.state = BatchState.DONE
        self.buffered_bytes -= batch.size_bytes - HEADER_SIZE
        if lost and self.config.idempotent and batch.was_sent:
            self._mark_unresolved(batch.partition)
        self._renumber_unresolved()

    def _mark_unresolved(self, partition: TopicPartition) -> None:
        self._queues[partition].is_unresolved = True
        self._unresolved.add(partition)

    def _renumber_unresolved(self) -> None:
        """Close gaps in sequences by a new epoch, if the producer is not transactional (KIP-360). A
        partition is skipped until it is known that none of its sent batches is in the log. For a
        transactional producer, the abort starts a new epoch (`adopt`)."""
        if self.config.transactional:
            return
        for partition in tuple(self._unresolved):
            queue = self._queues[partition]
            if not queue.is_settled:
                continue
            if queue.identity == self.identity:
                producer_id, epoch = self.identity
                self.identity = (
                    ProducerIdAndEpoch(producer_id, epoch + 1)
                    if epoch < _LAST_EPOCH
                    else NO_IDENTITY
                )
            if self.identity != NO_IDENTITY:
                self._renumber(partition, queue)

    def _renumber(self, partition: TopicPartition, queue: PartitionQueue[T]) -> None:
        queue.identity, queue.next_sequence = self.identity, 0
        if queue.is_unresolved:
            queue.is_unresolved, queue.known_producer = False, NO_IDENTITY.producer_id
        self._unresolved.discard(partition)
        for batch in queue.sent:
            batch.number(queue.identity, queue.next_sequence)
            queue.next_sequence = add_to_sequence(queue.next_sequence, batch.count)

    # -- dropping batches

    def expire(self, now_ms: float) -> list[Batch[T]]:
        """Drop and return the batches older than `delivery_timeout_ms`. The caller fails their
        deliveries."""
        limit = now_ms - self.config.delivery_timeout_ms
        if all(batch.created_ms > limit for batch in self._oldest()):
            return []
        expired = [batch for batch in self.batches() if batch.created_ms <= limit]
        for batch in expired:
            self._finish(batch, lost=True)
        return expired

    def drop_unsent(self) -> list[Batch[T]]:
        """Drop and return every batch that is not in flight, for an abort or a close without
        waiting."""
        dropped = [batch for batch in self.batches() if batch.state is not BatchState.IN_FLIGHT]
        for batch in dropped:
            self._finish(batch, lost=True)
        return dropped

    def give_up(self, batch: Batch[T]) -> None:
        """Drop a batch, sent or not. The dropped batch may have been written."""
        self._finish(batch, lost=True)

    def drop_all(self) -> list[Batch[T]]:
        """Drop and return all batches, including batches in flight. The caller fails their
        deliveries."""
        dropped = [*self.batches()]
        for batch in dropped:
            self._finish(batch, lost=True)
        return dropped

    @property
    def is_unresolved(self) -> bool:
        """Return True if a sequence has a gap, so that a transactional producer needs a new
        epoch."""
        return bool(self._unresolved)

    def adopt(self, identity: ProducerIdAndEpoch) -> None:
        """Set the identity that the broker assigned. A new identity restarts every sequence at
        0."""
        self.identity = identity
        if not self.config.transactional:
            self._renumber_unresolved()
            return
        for partition, queue in self._queues.items():
            if queue.identity != identity and not queue.sent:
                self._renumber(partition, queue)

    # -- time

    def oldest_serial(self) -> int | None:
        """Return the smallest serial of the unfinished batches. A flush ends when this serial
        passes the flush's mark."""
        return min((batch.serial for batch in self._oldest()), default=None)

    def next_expiry_ms(self) -> float | None:
        """Return the time of the next `expire` with an effect."""
        oldest = min((batch.created_ms for batch in self._oldest()), default=None)
        return None if oldest is None else oldest + self.config.delivery_timeout_ms

    def _oldest(self) -> Iterator[Batch[T]]:
        for queue in self._queues.values():
            if queue.sent:
                yield queue.sent[0]
            elif queue.waiting:
                yield queue.waiting[0]
