"""Batches that end inside an open transaction. The records of such a batch are not lost, so
`failOnDataLoss` does not apply. Only a query that skips the records would lose them.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client.spark.offsets.offsets import Offsets
from oncelog_client.values import TopicPartition

from .splits import OffsetRange


class UndecidedError(RuntimeError):
    """Raised for a requested offset above the last stable offset. The records between the two
    offsets are undecided, because a transaction is still open."""


def beyond(ranges: Iterable[OffsetRange], stable_ends: Offsets) -> frozenset[TopicPartition]:
    """Return the partitions with a range that goes beyond the last stable offset. The high
    watermark shows whether the records are lost or undecided."""
    return frozenset(
        partition for partition, start, end in ranges if stable_ends[partition] < max(start, end)
    )


def check_decided(
    ranges: Iterable[OffsetRange], stable_ends: Offsets, high_watermarks: Offsets
) -> None:
    """Raise UndecidedError for all ranges that are in the log, but go beyond its last stable
    offset. `high_watermarks`: those of the partitions from `beyond`, without deleted ones."""
    undecided = [
        (partition, max(start, end))
        for partition, start, end in ranges
        if stable_ends[partition] < max(start, end) <= high_watermarks.get(partition, -1)
    ]
    if undecided:
        lines = [
            f"topic {partition.topic}, partition {partition.partition} is not decided yet"
            f" up to offset {asked}: its last stable offset is {stable_ends[partition]}"
            for partition, asked in undecided
        ]
        topics = sorted({partition.topic for partition, _ in undecided})
        commands = ", ".join(f"oncelog transactions blocking {topic}" for topic in topics)
        advice = f"nothing is lost: read again later. The open transactions: {commands}"
        raise UndecidedError("\n".join([*lines, advice]))
