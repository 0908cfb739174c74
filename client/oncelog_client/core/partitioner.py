"""The partition of a record, chosen as by Kafka's Java client.

The murmur2 hash of the key chooses the partition of a record with a key. Records without a key stay
on one partition for about a batch. The next partition is drawn at random, and a partition with a
short queue of batches is more likely (KIP-480, KIP-794).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash of `org.apache.kafka.common.utils.Utils.murmur2`."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if whole < length:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a record with a key: `toPositive(murmur2(key)) % partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class _Sticky:
    """The current partition of records without a key, and the number of bytes sent to this
    partition."""

    __slots__ = ("partition", "sent_bytes")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.sent_bytes = 0


class Partitioner:
    """The partitioner of one producer.

    `draw(n)` returns a number in 0..n-1. Tests and simulations pass their own function.
    """

    def __init__(self, batch_size: int, draw: Callable[[int], int]) -> None:
        self._batch_size = max(batch_size, 1)
        self._draw = draw
        self._sticky: dict[str, _Sticky] = {}

    def partition(self, topic: str, key: bytes | None, partitions: int) -> int:
        """Return the partition of the next record of `topic`, out of `partitions`."""
        if key is not None:
            return partition_for_key(key, partitions)
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.partition >= partitions:
            sticky = self._sticky[topic] = _Sticky(self._draw(partitions))
        return sticky.partition

    def buffered(
        self,
        topic: str,
        record_bytes: int,
        *,
        available: Callable[[], Sequence[int]],
        queued: Callable[[int], int],
        batch_closed: bool,
    ) -> None:
        """Count a buffered record without a key, and choose the next partition after about a batch.

        `available()` returns the partitions that have a leader. `queued(n)` returns the number of
        batches that wait for partition n. The change happens at the end of a batch, so that batches
        are full. It happens at the latest after the size of two batches, so that a slow partition
        does not hold the producer back (KIP-794).
        """
        sticky = self._sticky.get(topic)
        if sticky is None:
            return
        sticky.sent_bytes += record_bytes
        if (batch_closed and sticky.sent_bytes >= self._batch_size) or (
            sticky.sent_bytes >= 2 * self._batch_size
        ):
            self._sticky[topic] = _Sticky(self._choose(available(), queued, sticky.partition))

    def _choose(self, available: Sequence[int], queued: Callable[[int], int], current: int) -> int:
        if not available:
            return current
        lengths = [queued(partition) for partition in available]
        weights = list(accumulate(max(lengths) + 1 - length for length in lengths))
        return available[bisect_right(weights, self._draw(weights[-1]))]
