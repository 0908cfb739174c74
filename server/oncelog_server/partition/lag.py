"""The lag of a consumer group on a partition: the readable records, and the records that open
transactions hold back."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec

from oncelog_server.log import readable
from oncelog_server.log.readable import Walked, count_readable
from oncelog_server.partition.partition import Partition


class Lag(msgspec.Struct, frozen=True):
    """The lag of a group on a partition. `readable_records` is the number of records that a
    read_committed reader gets up to the last stable offset. `held_back_records` is the number of
    records between the last stable offset and the high watermark. Markers and records of aborted
    transactions do not count."""

    readable_records: int
    held_back_records: int


def count_lag(partition: Partition, committed_offset: int) -> Generator[None, None, Lag]:
    """Return the lag of a group that has committed `committed_offset`. Yield after each step.
    Raises StorageError and CorruptLog."""
    log = partition._log
    stable, end = partition.last_stable_offset, partition.high_watermark
    below_stable = yield from count_readable(log, committed_offset, stable)
    held_back = yield from count_readable(log, max(committed_offset, stable), end)
    return Lag(below_stable, held_back)


def walk_readable(partition: Partition, first_offset: int, end_offset: int) -> Iterator[Walked]:
    """Count the records of `first_offset`..`end_offset` (exclusive), without markers and aborted
    records. Return an iterator over the total so far after each step (`log.readable`). Raises
    StorageError and CorruptLog."""
    return readable.walk_readable(partition._log, first_offset, end_offset)
