"""Remembers the lowest refused sequence of each producer without state in a partition (KIP-890).

A partition accepts any first sequence of an unknown producer. The first of several pipelined
batches may be refused with a retriable error (the coordinator was not ready, the disk was full).
Without the remembered sequence, the partition would then append the second batch as the producer's
first batch, and every retry of the first batch would be out of order. For this reason Kafka's
VerificationStateEntry keeps the lowest sequence, but only for transactions. This module keeps it
for every idempotent producer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MOST_PRODUCERS: Final = 1_000


class _Lowest(NamedTuple):
    producer_epoch: int
    sequence: int


class RefusedSequences:
    """The lowest refused sequences of at most MOST_PRODUCERS producers. The oldest producer is
    evicted first, so a client that invents producer ids cannot fill the memory."""

    __slots__ = ("lowest_by_id",)

    def __init__(self) -> None:
        self.lowest_by_id: dict[int, _Lowest] = {}

    def refused(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        known = self.lowest_by_id.get(producer_id)
        if known is None:
            if len(self.lowest_by_id) == MOST_PRODUCERS:
                del self.lowest_by_id[next(iter(self.lowest_by_id))]
        elif known.producer_epoch > producer_epoch:
            return
        elif known.producer_epoch == producer_epoch:
            sequence = min(sequence, known.sequence)
        self.lowest_by_id[producer_id] = _Lowest(producer_epoch, sequence)

    def lowest(self, producer_id: int, producer_epoch: int) -> int | None:
        """Return the lowest refused sequence of this producer epoch. Return None if no sequence was
        refused."""
        known = self.lowest_by_id.get(producer_id)
        if known is None or known.producer_epoch != producer_epoch:
            return None
        return known.sequence

    def forget(self, producer_id: int) -> None:
        """Forget a producer, because its transaction has ended or the refused batch was retried."""
        self.lowest_by_id.pop(producer_id, None)
