"""The unfinished batches of one partition, and which of them may be sent next (KIP-98, KIP-360)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from oncelog_protocol.records.compression import Compression

from .backoff import Backoff
from .batch import Batch, BatchState
from .producer_id import NO_IDENTITY, ProducerIdAndEpoch

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingConfig:
    """The producer's settings for its batches, in ms and bytes."""

    batch_size: int = 16_384
    linger_ms: float = 5
    buffer_memory: int = 33_554_432
    delivery_timeout_ms: float = 120_000
    retries: int = (1 << 31) - 1
    backoff: Backoff = field(default_factory=lambda: Backoff(100, 1_000))
    max_in_flight: int = 5
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    idempotent: bool = True
    transactional: bool = False


class PartitionQueue(Generic[T]):
    """The batches of one partition: `sent` in the order of their sequences, then `waiting`."""

    __slots__ = ("identity", "is_unresolved", "known_producer", "next_sequence", "sent", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Batch[T]] = deque()
        self.sent: list[Batch[T]] = []
        self.identity: ProducerIdAndEpoch = NO_IDENTITY
        self.next_sequence = 0
        # The producer id of the last batch that was written. The leader has a batch of this
        # producer.
        self.known_producer = NO_IDENTITY.producer_id
        # A batch was lost or refused: the sequence has a gap, and only a new epoch closes it.
        self.is_unresolved = False

    @property
    def has_in_flight(self) -> bool:
        return any(batch.state is BatchState.IN_FLIGHT for batch in self.sent)

    @property
    def is_settled(self) -> bool:
        """Return True if no sent batch can be in the log. A batch after a missing batch is not in
        the log either."""
        return not self.has_in_flight and not (self.sent and self.sent[0].maybe_written)

    def next_batch(self, config: BatchingConfig, identity: ProducerIdAndEpoch) -> Batch[T] | None:
        """Return the only batch that may be sent next, even if it is not due yet (linger,
        back-off). Return None if there is none."""
        if any(batch.state is BatchState.RETRY for batch in self.sent):
            first = self.sent[0]
            held = self.is_unresolved and (config.transactional or not first.maybe_written)
            return None if held or first.state is not BatchState.RETRY else first
        if not self.waiting or len(self.sent) >= config.max_in_flight or self.is_unresolved:
            return None
        if config.idempotent and self.sent and self.sent[0].attempts > 1:
            # The first batch may be in the log already. A leader recognizes a duplicate only of its
            # last five batches. It would refuse an older duplicate as out of order, and the batch
            # would be written again under a new epoch.
            return None
        if config.idempotent and (
            identity == NO_IDENTITY or (self.sent and self.identity != identity)
        ):
            return None
        if config.idempotent and self.sent and self.known_producer != identity.producer_id:
            # A leader without a batch of this producer accepts any first sequence. Suppose that the
            # leader refuses the first batch (no leader yet) and accepts the second. Then the first
            # batch could never be written.
            return None
        return self.waiting[0]
