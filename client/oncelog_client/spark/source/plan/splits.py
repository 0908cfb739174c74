"""Ranges of offsets cut into tasks: `maxRecordsPerPartition` first, then `minPartitions`.

Sizes are counted in offsets, with gaps (markers, aborted transactions, compaction).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from oncelog_client.values import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets [start, end) of a partition, for one task."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Return the ranges cut into pieces, in the same order and without empty ranges.

    No piece has more than `max_records` offsets. If there are fewer pieces than `min_partitions`,
    the largest pieces are cut further, so that there are about `min_partitions` pieces, as in
    Spark's own connector.
    """
    pieces = [piece for piece in ranges if piece.size > 0]
    if max_records is not None:
        pieces = [part for piece in pieces for part in _cut(piece, -(-piece.size // max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _at_least(pieces, min_partitions)
    return pieces


def _at_least(ranges: list[OffsetRange], count: int) -> list[OffsetRange]:
    """Return about `count` pieces. Small ranges stay whole, and the rest of `count` is shared among
    the other ranges."""
    total = sum(whole.size for whole in ranges)
    small = {whole for whole in ranges if _parts(whole.size, total, count) == 1}
    large_total = total - sum(whole.size for whole in small)
    left = max(count - len(small), 1)
    return [
        part
        for whole in ranges
        for part in _cut(whole, 1 if whole in small else _parts(whole.size, large_total, left))
    ]


def _parts(size: int, total: int, count: int) -> int:
    """Return the number of pieces of a range with `size` offsets, if `total` offsets are cut into
    `count` pieces. The number is in proportion to `size`, rounded half up, at least 1 and at most
    `size`."""
    return min(max((2 * size * count + total) // (2 * total), 1), size)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(bounds)]
