"""The txnindex rows that a read_committed Fetch needs, and that are computed from the log first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_server.log.log import PartitionLog
from oncelog_server.log.unknown_rows import compute_unknown_rows, has_unknown_rows
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import Slices


class MissingRows:
    """The missing rows of a log. They count as bytes that are only on the disk."""

    def __init__(self, log: PartitionLog, slices: Slices) -> None:
        self._log: Final = log
        self._slices: Final = slices

    def prefetch(self, done: Callable[[], None]) -> None:
        """Compute the rows in slices, once for all requests, then call `done`. After an error a
        read gets the same error."""
        running = self._log.segments.aborted.computing(
            lambda: self._slices.queue(compute_unknown_rows(self._log))
        )
        running.on_complete(lambda _: done())
        running.on_abandon(done)


def missing_rows(partition: Partition, offset: int, slices: Slices) -> MissingRows | None:
    """Return the rows that a read_committed read at `offset` would have to compute, None if it has
    all rows."""
    log = partition._log
    return MissingRows(log, slices) if has_unknown_rows(log, offset) else None
