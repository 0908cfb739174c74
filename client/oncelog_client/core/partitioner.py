"""Which partition a record goes to: the choice of Kafka's Java client.

Keyed records by murmur2 of the key; records without one stick to a partition until about a batch
has been given to it, and the next is drawn by queue length (KIP-480, KIP-794).
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
    """The unsigned 32-bit hash of `org.apache.kafka.common.utils.Utils.murmur2`."""
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
    """The partition of a keyed record among `partitions`: `toPositive(murmur2(key)) % n`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class _Sticky:
    """The partition that records without a key go to now, and how much of a batch it has had."""

    __slots__ = ("given_bytes", "partition")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.given_bytes = 0


class Partitioner:
    """The partitioner of one producer.

    `draw(n)` gives a number in 0..n-1; it is an argument so that a test or a simulation can choose.
    """

    def __init__(self, batch_size: int, draw: Callable[[int], int]) -> None:
        self._batch_size = max(batch_size, 1)
        self._draw = draw
        self._sticky: dict[str, _Sticky] = {}

    def partition(self, topic: str, key: bytes | None, partitions: int) -> int:
        """The partition of the next record of `topic`, which has `partitions` partitions."""
        if key is not None:
            return partition_for_key(key, partitions)
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.partition >= partitions:
            sticky = self._sticky[topic] = _Sticky(self._draw(partitions))
        return sticky.partition

    def given(
        self,
        topic: str,
        record_bytes: int,
        *,
        available: Callable[[], Sequence[int]],
        queued: Callable[[int], int],
        batch_closed: bool,
    ) -> None:
        """A record without a key was buffered: move on once about a batch has been given.

        `available()` are the partitions that have a leader, `queued(n)` the batches waiting there.
        The move happens on a batch boundary, so that batches are full, or at two batches' worth, so
        that a slow partition cannot keep the producer (KIP-794).
        """
        sticky = self._sticky.get(topic)
        if sticky is None:
            return
        sticky.given_bytes += record_bytes
        if (batch_closed and sticky.given_bytes >= self._batch_size) or (
            sticky.given_bytes >= 2 * self._batch_size
        ):
            self._sticky[topic] = _Sticky(self._choose(available(), queued, sticky.partition))

    def _choose(self, available: Sequence[int], queued: Callable[[int], int], current: int) -> int:
        if not available:
            return current
        lengths = [queued(partition) for partition in available]
        weights = list(accumulate(max(lengths) + 1 - length for length in lengths))
        return available[bisect_right(weights, self._draw(weights[-1]))]
