"""The bytes that a Fetch needs and that are only on the disk. A read of them on the event loop
would delay all other clients. So they are read outside of it, and their arrival wakes the Fetch, as
an append does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_server.partition.missing_rows import missing_rows
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import ColdBytes, Slices

# Maximum number of ranges that one Fetch reads from the disk at once. Later reads find the rest.
MOST_RANGES: Final = 16
# Maximum number of times that one Fetch waits for the disk. After that its reads wait on the event
# loop: if memory is short, prefetched bytes may leave the page cache before they are read.
DISK_WAITS: Final = 3
# The least time that a Fetch waits for the disk. A client without a `max_wait_ms` would take a
# response without records for the end of the partition.
LEAST_WAIT_MS: Final = 500


class ColdRanges:
    """The ranges of one Fetch. `has_found`: the last read has left out records for them. `slices`:
    the Fetch is read_committed, and the aborted transactions that are unknown are computed in
    slices."""

    __slots__ = ("_arriving", "_found", "_slices", "_waits")

    def __init__(self, slices: Slices | None = None) -> None:
        self._slices = slices
        self._found: list[ColdBytes] = []
        self._arriving = 0
        self._waits = 0

    @property
    def has_found(self) -> bool:
        return bool(self._found)

    def has(self, partition: Partition, offset: int) -> bool:
        """Return True if a read at this offset would wait for the disk, and note the range."""
        if self._waits >= DISK_WAITS and not self._arriving:
            return False
        found: ColdBytes | None = partition.cold_range(offset)
        if found is None and self._slices is not None:
            found = missing_rows(partition, offset, self._slices)
        if found is None:
            return False
        if len(self._found) < MOST_RANGES:
            self._found.append(found)
        return True

    def prefetch(self, arrived: Callable[[], None]) -> None:
        """Read the noted ranges outside of the event loop. Call `arrived` when all are in the page
        cache. While earlier ranges are still being read, read no further ones."""
        found, self._found = self._found, []
        if not found or self._arriving:
            return
        self._waits += 1
        self._arriving = len(found)

        def one_arrived() -> None:
            self._arriving -= 1
            if not self._arriving:
                arrived()

        for part in found:
            part.prefetch(one_arrived)
