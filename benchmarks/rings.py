"""Rings: lists of requests. After the last request, the load generator starts again at the first.
No two requests of a ring have the same record bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.batches import NO_IDENTITY, Batches, a_batch
from benchmarks.bench import KB_VALUE, SMALL_VALUE
from benchmarks.requests import Entry, produce
from tests.harness.writing import Identity

RECORDS_OF_16_KB: Final = 16
# A batch of this many records of 1 KB is just below the default of max.message.bytes.
RECORDS_OF_1_MB: Final = 1_000


@dataclass(frozen=True, slots=True)
class Content:
    """The number of records in each batch, and the size of their values."""

    records: int
    value_bytes: int

    def batches(self, partitions: Sequence[int], producer: Identity = NO_IDENTITY) -> Batches:
        """Return a batch for each of these partitions. All batches differ."""
        return {
            partition: a_batch(self.records, self.value_bytes, producer) for partition in partitions
        }


SMALL: Final = Content(1, SMALL_VALUE)
OF_16_KB: Final = Content(RECORDS_OF_16_KB, KB_VALUE)
OF_200_KB: Final = Content(200, KB_VALUE)
OF_1_MB: Final = Content(RECORDS_OF_1_MB, KB_VALUE)

Transaction = Callable[[str, Batches, Identity], list[Entry]]


def ring(
    topic: str, partitions: int, per_request: int, turns: int, content: Content
) -> list[Entry]:
    """Return `turns` rounds of requests that write to all partitions, `per_request` at a time."""
    return [
        produce(topic, content.batches(group))
        for _ in range(turns)
        for group in groups(partitions, per_request)
    ]


def groups(partitions: int, per_request: int) -> list[range]:
    """Return the partitions 0 to `partitions` - 1 in groups of equal size. Raises ValueError if the
    size does not divide their number, because the load generator needs requests of one layout."""
    if partitions % per_request:
        raise ValueError(f"{partitions} partitions cannot be divided into groups of {per_request}")
    return [range(at, at + per_request) for at in range(0, partitions, per_request)]


def producer_ring(
    topic: str, partitions: Sequence[int], turns: int, producer: Identity, content: Content
) -> list[Entry]:
    """Return `turns` requests of one idempotent producer. Each writes to all these partitions."""
    return [produce(topic, content.batches(partitions, producer), producer) for _ in range(turns)]


def transaction_ring(
    kind: Transaction,
    topic: str,
    partitions: Sequence[int],
    turns: int,
    producer: Identity,
    content: Content,
) -> list[Entry]:
    """Return the requests of `turns` transactions of one producer, each to all these partitions."""
    return [
        entry
        for _ in range(turns)
        for entry in kind(topic, content.batches(partitions, producer), producer)
    ]
