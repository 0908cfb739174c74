"""The bytes that a Fetch needs and that are only on the disk. A read of them on the event loop
would delay all other clients. So the Fetch returns other records, or is repeated after a
prefetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from oncelog_server.deferred import Deferred, pass_on
from oncelog_server.log.results import FileRange
from oncelog_server.partition.partition import Partition

R = TypeVar("R")

# Maximum number of ranges that one Fetch reads from the disk at once. Later Fetches read the rest.
MOST_RANGES: Final = 16


class ColdRanges:
    """The ranges of one pass over the partitions of a Fetch."""

    def __init__(self) -> None:
        self.ranges: list[FileRange] = []

    def has(self, partition: Partition, offset: int) -> bool:
        """Return True if a read at this offset would wait for the disk, and note the range."""
        found = partition.cold_range(offset)
        if found is None:
            return False
        if len(self.ranges) < MOST_RANGES:
            self.ranges.append(found)
        return True

    def prefetch(self) -> None:
        """Read the ranges outside of the event loop. The Fetch does not wait for them."""
        for found in self.ranges:
            found.prefetch(_do_nothing)

    def repeat_after(
        self, again: Callable[[], R | Deferred[R] | Deferred[R | Deferred[R]]]
    ) -> Deferred[R]:
        """Read the ranges outside of the event loop, then complete the result with that of
        `again`."""
        answer: Deferred[R] = Deferred()
        left = len(self.ranges)

        def arrived() -> None:
            nonlocal left
            left -= 1
            if left or answer.cancelled:
                return
            try:
                found = again()
            except Exception as failure:
                answer.abandon(failure)
                return
            if isinstance(found, Deferred):
                found.on_complete(lambda value: pass_on(value, answer))
                found.on_abandon(lambda: answer.abandon(found.failure))
                answer.on_cancel(found.cancel)
            else:
                answer.complete(found)

        for found in self.ranges:
            found.prefetch(arrived)
        return answer


def _do_nothing() -> None:
    pass
