"""The partition of a record, chosen as by Kafka's Java client.

The murmur2 hash of the key chooses the partition of a record with a key. Records without a key stay
on one partition for about a batch. The next partition is drawn at random out of those with a
leader, and a partition with a short queue of batches is more likely (KIP-480, KIP-794).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from oncelog_client.values import PartitionInfo

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


def available(partitions: Sequence[PartitionInfo]) -> list[int]:
    """Return the numbers of the partitions with a leader."""
    return [info.partition for info in partitions if info.leader is not None]


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

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[PartitionInfo]) -> int:
        """Return the partition of the next record of `topic`, out of `partitions`.

        The hash of a key counts all partitions. A record without a key goes to a partition with a
        leader. If no partition has a leader, all are candidates, as in BuiltInPartitioner.
        """
        if key is not None:
            return partition_for_key(key, len(partitions))
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.partition >= len(partitions):
            sticky = self._sticky[topic] = _Sticky(self._any_of(partitions))
        elif partitions[sticky.partition].leader is None and available(partitions):
            # Kafka's producer changes the partition only after the size of a batch. Until then its
            # records wait for the leader.
            sticky = self._sticky[topic] = _Sticky(self._any_of(partitions))
        return sticky.partition

    def _any_of(self, partitions: Sequence[PartitionInfo]) -> int:
        candidates = available(partitions) or range(len(partitions))
        return candidates[self._draw(len(candidates))]

    def buffered(
        self,
        topic: str,
        record_bytes: int,
        *,
        partitions: Sequence[PartitionInfo],
        queued: Callable[[int], int],
        batch_closed: bool,
    ) -> None:
        """Count a buffered record without a key, and choose the next partition after about a batch.

        `queued(n)` returns the number of batches that wait for partition n. The change happens at
        the end of a batch, so that batches are full. It happens at the latest after the size of two
        batches, so that a slow partition does not hold the producer back (KIP-794).
        """
        sticky = self._sticky.get(topic)
        if sticky is None:
            return
        sticky.sent_bytes += record_bytes
        if (batch_closed and sticky.sent_bytes >= self._batch_size) or (
            sticky.sent_bytes >= 2 * self._batch_size
        ):
            self._sticky[topic] = _Sticky(self._choose(partitions, queued))

    def _choose(self, partitions: Sequence[PartitionInfo], queued: Callable[[int], int]) -> int:
        candidates = available(partitions)
        if not candidates:
            return self._any_of(partitions)
        lengths = [queued(partition) for partition in candidates]
        weights = list(accumulate(max(lengths) + 1 - length for length in lengths))
        return candidates[bisect_right(weights, self._draw(weights[-1]))]
