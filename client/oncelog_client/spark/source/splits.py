"""Ranges of offsets cut into tasks: `maxRecordsPerPartition` first, then `minPartitions`.

Sizes are counted in offsets, gaps (markers, aborted transactions, compaction) among them.
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
    """The same offsets in the same order; empty ranges left out.

    No piece has more than `max_records`; there are about `min_partitions` pieces or more, cut from
    the largest ranges, as Spark's own connector does it.
    """
    pieces = [one for one in ranges if one.size > 0]
    if max_records is not None:
        pieces = [part for piece in pieces for part in _cut(piece, -(-piece.size // max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _at_least(pieces, min_partitions)
    return pieces


def _at_least(ranges: list[OffsetRange], count: int) -> list[OffsetRange]:
    """Small ranges stay whole; what they leave of `count` is shared out among the others."""
    total = sum(one.size for one in ranges)
    small = {one for one in ranges if _parts(one.size, total, count) == 1}
    large_total = total - sum(one.size for one in small)
    left = max(count - len(small), 1)
    return [
        part
        for one in ranges
        for part in _cut(one, 1 if one in small else _parts(one.size, large_total, left))
    ]


def _parts(size: int, total: int, count: int) -> int:
    """The proportion, rounded half up, one at least and no more than there are offsets."""
    return min(max((2 * size * count + total) // (2 * total), 1), size)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(bounds)]
