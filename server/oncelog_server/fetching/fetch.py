"""One Fetch. The request reads its partitions, or waits until they have enough records
(`min_bytes`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from oncelog_server.deferred import Deferred
from oncelog_server.fetching.cold_ranges import LEAST_WAIT_MS, ColdRanges
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.first_read import FirstRead
from oncelog_server.fetching.follower_waits import FollowerWaits
from oncelog_server.fetching.parked import ParkedFetch
from oncelog_server.fetching.read import FetchResult, read_partitions
from oncelog_server.fetching.unread import Unread
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import SMALL, Slices, Steps, at_its_end
from oncelog_server.timers import Timers

R = TypeVar("R")
T = TypeVar("T")


class Finder(Protocol):
    """Looks up the partitions of one request."""

    @property
    def found(self) -> list[Partition]:
        """The partitions that were found so far."""
        ...

    def find(self, key: PartitionKey) -> Partition:
        """Return a partition. Raises Refused if this broker does not serve the partition, or the
        client may not read it."""
        ...


class FetchLimits(msgspec.Struct, frozen=True):
    """The limits of one Fetch. `max_bytes` is the smaller of the request's and the broker's
    limit."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int


def fetch(
    partitions: list[FetchedPartition],
    finder: Finder,
    isolation: Isolation,
    limits: FetchLimits,
    response: Callable[[FetchResult], Steps[R]],
    *,
    timers: Timers,
    slices: Slices,
    follower: FetchingFollower | None = None,
    unread: Unread | None = None,
    waits: FollowerWaits | None = None,
) -> Steps[R | Deferred[R]]:
    """Return the response with the records, or a Deferred if the request waits for more records.
    The request does not wait if no partition is found or a partition has an error. If a request
    with many partitions waits, its later reads and its response are made in slices.

    `follower` is the broker that sends the request, None for a consumer. For a follower, each later
    read reads the partitions that are in `unread` at that time. `waits` has the parked fetches of
    all followers. Records that are only on the disk are left out until they are in memory."""
    is_committed = follower is None and isolation is Isolation.READ_COMMITTED
    cold = ColdRanges(slices if is_committed else None)
    # Fewer partitions are read in one turn of the loop.
    first = FirstRead(finder.find, unread) if len(partitions) > SMALL else None
    try:
        result = yield from read_partitions(
            partitions,
            finder.find if first is None else first.find,
            isolation,
            limits.max_bytes,
            follower,
            unread,
            cold,
        )
        max_wait_ms = limits.max_wait_ms
        min_bytes = min(limits.min_bytes, limits.max_bytes)
        if cold.has_found:
            min_bytes, max_wait_ms = max(min_bytes, 1), max(max_wait_ms, LEAST_WAIT_MS)
        is_empty = unread is None and not finder.found
        if result.size >= min_bytes or result.is_urgent or max_wait_ms <= 0 or is_empty:
            cold.prefetch(_do_nothing)
            if unread is not None:
                unread.answered()
            return (yield from response(result))
        return ParkedFetch(
            finder.found,
            _later_reads(partitions, finder, isolation, limits, slices, follower, unread, cold),
            lambda found: _in_slices(len(found.partitions), slices, response(found)),
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms if waits is None else waits.limit(max_wait_ms),
            timers=timers,
            unread=unread,
            cold=cold,
            has_newer_high_watermark=result.has_newer_high_watermark,
            has_changed=first is not None and first.has_changed,
            waits=None if waits is None else waits.parked,
        ).answer
    finally:
        if first is not None:
            first.end()


def _later_reads(
    partitions: list[FetchedPartition], finder: Finder, isolation: Isolation, limits: FetchLimits,
    slices: Slices, follower: FetchingFollower | None, unread: Unread | None, cold: ColdRanges,
) -> Callable[[], FetchResult | Deferred[FetchResult]]:  # fmt: skip
    """Return the function that reads the partitions again after a change. See `fetch`."""
    repeated = None if follower is None else follower.repeated()

    def read() -> FetchResult | Deferred[FetchResult]:
        rows = partitions if unread is None else unread.rows()
        steps = read_partitions(
            rows, finder.find, isolation, limits.max_bytes, repeated, unread, cold
        )
        return _in_slices(len(rows), slices, steps)

    return read


def _in_slices(partitions: int, slices: Slices, steps: Steps[T]) -> T | Deferred[T]:
    """Run steps over this number of partitions: many of them in several turns of the loop."""
    return slices.run(steps) if partitions > SMALL else at_its_end(steps)


def _do_nothing() -> None:
    pass
