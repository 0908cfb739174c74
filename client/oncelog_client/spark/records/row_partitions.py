"""The partitions of the rows of an Arrow batch, chosen as by `core.partitioner`, but for many rows
at once. The murmur2 hash of the key chooses the partition. Rows without a key stay with a partition
for about a batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog_client.core.partitioner import murmur2

_SEED: Final = 0x9747B28C
_M: Final = pa.scalar(0x5BD1E995, pa.uint32())
_SHIFTS: Final = {bits: pa.scalar(bits, pa.uint32()) for bits in (13, 15, 24)}
_POSITIVE: Final = pa.scalar(0x7FFFFFFF, pa.uint32())
# For fewer keys of one length than this, a loop hashes faster.
_FEW: Final = 8


def partitions_for_keys(keys: pa.Array, counts: pa.Array | pa.Scalar) -> pa.Array:
    """Return `partition_for_key` of each key (binary, not null). `counts` (int64) is the number of
    partitions: one number for all keys, or one for each key."""
    hashes = pc.cast(pc.bit_wise_and(murmur2_of_all(keys), _POSITIVE), pa.int64())
    rest = pc.subtract(hashes, pc.multiply(pc.divide(hashes, counts), counts))
    return pc.cast(rest, pa.int32())


def murmur2_of_all(keys: pa.Array) -> pa.Array:
    """Return `murmur2` of each key (binary, not null), as uint32."""
    lengths = pc.binary_length(keys)
    least, most = pc.min_max(lengths).values()
    if least == most:
        return _murmur2_of_one_length(keys, least.as_py() or 0)
    order = pc.sort_indices(lengths)
    runs = pc.run_end_encode(pc.take(lengths, order))
    keys = pc.take(keys, order)
    hashes, start = [], 0
    for end, length in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        hashes.append(_murmur2_of_one_length(keys.slice(start, end - start), length))
        start = end
    return pc.take(pa.concat_arrays(hashes), pc.sort_indices(order))


def _murmur2_of_one_length(keys: pa.Array, length: int) -> pa.Array:
    rows = len(keys)
    if rows < _FEW:
        return pa.array([murmur2(key) for key in keys.to_pylist()], pa.uint32())
    whole, rest = divmod(length, 4)
    width = whole + (rest > 0)
    padded = pc.binary_join_element_wise(keys, bytes(width * 4 - length), b"")
    words = pa.Array.from_buffers(pa.uint32(), rows * width, [None, padded.buffers()[2]])
    steps = pa.array(range(0, rows * width, width or 1), pa.int32())
    h = pa.repeat(pa.scalar(_SEED ^ length, pa.uint32()), rows)
    for number in range(width):
        word = pc.take(words, pc.add(steps, pa.scalar(number, pa.int32())))
        if number < whole:
            k = pc.multiply(word, _M)
            k = pc.multiply(pc.bit_wise_xor(k, pc.shift_right(k, _SHIFTS[24])), _M)
            h = pc.bit_wise_xor(pc.multiply(h, _M), k)
        else:
            h = pc.multiply(pc.bit_wise_xor(h, word), _M)
    h = pc.multiply(pc.bit_wise_xor(h, pc.shift_right(h, _SHIFTS[13])), _M)
    return pc.bit_wise_xor(h, pc.shift_right(h, _SHIFTS[15]))


class StickyPartitions:
    """The partitions of rows without a key, topic by topic.

    `draw(n)` returns a random number in 0..n-1. As in KIP-480, `draw` chooses another partition
    when the current partition has got `batch_size` bytes of rows. The queues of the partitions
    (KIP-794) are not considered.
    """

    def __init__(self, batch_size: int, draw: Callable[[int], int]) -> None:
        self._batch_size = max(batch_size, 1)
        self._draw = draw
        # Topic -> its current partition, and the bytes that the partition has got.
        self._now: dict[str, tuple[int, int]] = {}

    def partitions(
        self, topic: str, sizes: pa.Array, count: int, offline: Collection[int] = ()
    ) -> pa.Array:
        """Return a partition for each row, out of `count` partitions. `sizes` are the rows' sizes
        in bytes (int64). Size 0 marks a row that has a key or an explicit partition.

        The rows go to a partition outside `offline`, even before the current partition has got
        `batch_size` bytes. If all partitions are offline, all are candidates.
        """
        candidates = [partition for partition in range(count) if partition not in offline]
        if not candidates:
            candidates = [*range(count)]
        sums = memoryview(pc.cumulative_sum(sizes).buffers()[1]).cast("q")
        rows = len(sizes)
        partition, given = self._now.get(topic, (count, 0))
        if partition >= count or (partition in offline and partition not in candidates):
            partition, given = candidates[self._draw(len(candidates))], 0
        pieces, start, before = [], 0, 0
        while start < rows:
            end = bisect_left(sums, before + self._batch_size - given, start, rows)
            is_full = end < rows
            end += is_full
            pieces.append(pa.repeat(pa.scalar(partition, pa.int32()), end - start))
            given += sums[end - 1] - before
            start, before = end, sums[end - 1]
            if is_full:
                partition, given = self._another(partition, candidates), 0
        self._now[topic] = partition, given
        return pa.concat_arrays(pieces) if pieces else pa.array([], pa.int32())

    def _another(self, partition: int, candidates: list[int]) -> int:
        others = [candidate for candidate in candidates if candidate != partition]
        return others[self._draw(len(others))] if others else partition
