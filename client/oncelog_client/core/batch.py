"""A batch that is sent to a partition leader: its records, their deliveries, its identity and
sequence.

A delivery stands for the future that `send` of the producer returned. The caller completes the
future when the batch is done. Records are appended one by one, each with its delivery. Or the
caller gives an encoded batch with one delivery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from oncelog_client.values import TopicPartition
from oncelog_protocol.records.batch import (
    HEADER_SIZE,
    add_to_sequence,
    build_batch,
    build_encoded_batch,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import EncodedRecords, NewRecord

from .producer_id import NO_IDENTITY, ProducerIdAndEpoch

T = TypeVar("T")

# Approximate bytes of a record besides key and value: length, attributes, two deltas, two lengths
# and the header count.
_RECORD_OVERHEAD: Final = 12
_HEADER_OVERHEAD: Final = 4


class BatchState(Enum):
    """The state of a batch. OPEN and FULL wait for their first send. RETRY waits for its next
    send."""

    OPEN = "open"
    FULL = "full"
    IN_FLIGHT = "in flight"
    RETRY = "retry"
    DONE = "done"


def record_size(record: NewRecord) -> int:
    """Return the approximate size in bytes of the record in a batch, before compression."""
    _, key, value, headers = record
    size = _RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += _HEADER_OVERHEAD + len(name) + (0 if content is None else len(content))
    return size


@dataclass(slots=True, eq=False)
class Batch(Generic[T]):
    """A batch. `serial` grows with each new batch. The halves of a split batch keep its serial.
    Times are in ms."""

    partition: TopicPartition
    serial: int
    created_ms: float
    records: list[NewRecord] = field(default_factory=list)
    deliveries: list[T] = field(default_factory=list)
    size_bytes: int = HEADER_SIZE
    state: BatchState = BatchState.OPEN
    attempts: int = 0
    sequence_errors: int = 0
    retry_at_ms: float = 0.0
    identity: ProducerIdAndEpoch = NO_IDENTITY
    base_sequence: int = -1
    # True if the batch was sent under this identity, and no later response has refused its
    # sequence.
    maybe_written: bool = False
    wire: bytearray = field(default_factory=bytearray)
    # True if an attempt ended with an unknown outcome.
    is_unresolved: bool = False
    # Used instead of `records` if the caller gave a complete batch.
    encoded: EncodedRecords | None = None
    # Error of the last attempt. If no attempt succeeds in time, this error is the cause in the
    # delivery's TimedOutError.
    refusal: Exception | None = None
    # False for one half of a split batch: the other half completes the delivery.
    completes_delivery: bool = True

    @property
    def count(self) -> int:
        """Return the number of records."""
        return len(self.records) if self.encoded is None else self.encoded.records_count

    @property
    def was_sent(self) -> bool:
        """Return True if a broker may have the batch. Its outcome is then unknown after a
        timeout."""
        return self.attempts > 0

    def add(self, record: NewRecord, size_bytes: int, delivery: T) -> None:
        self.records.append(record)
        self.deliveries.append(delivery)
        self.size_bytes += size_bytes

    def give(self, encoded: EncodedRecords, delivery: T) -> None:
        """Append all records at once. Afterwards the batch takes no more records."""
        self.encoded = encoded
        self.deliveries = [delivery]
        self.size_bytes += len(encoded.body)

    def number(self, identity: ProducerIdAndEpoch, base_sequence: int) -> None:
        """Set the identity and the first sequence. A previous encoding is dropped."""
        self.identity = identity
        self.base_sequence = base_sequence
        self.maybe_written = False
        self.wire = bytearray()

    def encode(
        self, compression: Compression, level: int | None, *, transactional: bool
    ) -> bytearray:
        """Return the encoded batch. A retry sends the same bytes, unless `number` was called
        since."""
        if not self.wire:
            build: Callable[..., bytearray] = build_batch
            content: EncodedRecords | list[NewRecord] = self.records
            if self.encoded is not None:
                build, content = build_encoded_batch, self.encoded
            self.wire = build(
                content,
                compression=compression,
                level=level,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=transactional,
            )
        return self.wire

    def halves(self) -> tuple[Batch[T], Batch[T]]:
        """Split a batch that a broker has refused as too large. The two halves keep the records and
        sequences."""
        middle = self.count // 2
        first, second = self._part(0), self._part(middle)
        if self.encoded is not None:
            for part, encoded in zip((first, second), self.encoded.halves(), strict=True):
                part.give(encoded, self.deliveries[0])
            # The new encoding may have fewer bytes. But together the halves must free the buffer
            # memory that the batch has taken.
            second.size_bytes = self.size_bytes - first.size_bytes + HEADER_SIZE
            first.completes_delivery, second.completes_delivery = False, self.completes_delivery
            return first, second
        for position, (record, delivery) in enumerate(
            zip(self.records, self.deliveries, strict=True)
        ):
            half = first if position < middle else second
            half.add(record, record_size(record), delivery)
        return first, second

    def _part(self, start: int) -> Batch[T]:
        part: Batch[T] = Batch(self.partition, self.serial, self.created_ms)
        part.identity = self.identity
        if self.base_sequence >= 0:
            part.base_sequence = add_to_sequence(self.base_sequence, start)
        part.attempts = self.attempts
        part.refusal = self.refusal
        part.is_unresolved = self.is_unresolved
        part.state = BatchState.RETRY
        return part
