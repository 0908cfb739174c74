"""A Fetch that waits for `min_bytes` of records. It needs no task: it wakes when one of its
partitions changes or its timer fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from oncelog_server.deferred import Deferred, pass_on
from oncelog_server.fetching.cold_ranges import ColdRanges
from oncelog_server.fetching.read import FetchResult
from oncelog_server.fetching.unread import Unread
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.waiting import ParkedRequests
from oncelog_server.timers import Timer, Timers

R = TypeVar("R")

# The longest time after which a follower learns a new high watermark. A response with records
# brings it earlier. An immediate response would double the requests of a follower under load.
HIGH_WATERMARK_DELAY_MS: Final = 20


class ParkedFetch(Generic[R]):
    """Repeats the read after each change of a partition. The Fetch ends when there is enough data
    or an error, or when the timer fires. Then `answer` completes with the response that `respond`
    makes from the last read. `read` and `respond` return a Deferred if they need several turns of
    the loop. Several changes in one turn of the loop cause a single read.

    The Fetch of a follower waits for changes of its `unread` partitions instead. It wakes at an
    append, which need not be committed. Any other change, for example of the high watermark, ends
    the Fetch HIGH_WATERMARK_DELAY_MS later. With `has_newer_high_watermark`, this delay begins at
    once. `has_changed`: a partition has changed after its last read. `waits` is the set of
    followers' parked fetches that can be ended early. `cold` has the bytes that the reads leave out
    because they are only on the disk: their arrival wakes the Fetch."""

    __slots__ = (
        "_cold", "_is_late", "_is_reading", "_is_stale", "_min_bytes", "_partitions", "_read",
        "_respond", "_scheduled", "_timer", "_timers", "_unread", "_waits", "_watermark_timer",
        "answer",
    )  # fmt: skip

    def __init__(
        self,
        partitions: list[Partition],
        read: Callable[[], FetchResult | Deferred[FetchResult]],
        respond: Callable[[FetchResult], R | Deferred[R]],
        *,
        min_bytes: int,
        max_wait_ms: int,
        timers: Timers,
        unread: Unread | None = None,
        cold: ColdRanges | None = None,
        has_newer_high_watermark: bool = False,
        has_changed: bool = False,
        waits: ParkedRequests | None = None,
    ) -> None:
        self.answer: Deferred[R] = Deferred()
        self._partitions = partitions
        self._read = read
        self._respond = respond
        self._min_bytes = min_bytes
        self._timers = timers
        self._unread = unread
        self._cold = cold
        self._scheduled = False
        self._is_reading = False
        # True if a partition has changed, or the timer has fired, since the current read began.
        self._is_stale = False
        self._is_late = False
        self._watermark_timer: Timer | None = None
        if unread is not None:
            unread.await_changes(self._wake, self._high_watermark_advanced)
        else:
            wake = self._wake  # bound once for all partitions
            for partition in partitions:
                partition.read_waiters.add(wake)
        if has_changed:
            self._wake()
        if has_newer_high_watermark:
            self._high_watermark_advanced()
        self._waits = waits
        if waits is not None:
            waits.add(self._time_is_up)
        self._timer: Timer = timers.call_later(max_wait_ms, self._time_is_up)
        self.answer.on_cancel(self._release)
        if cold is not None:
            cold.prefetch(self._wake)

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._timers.call_soon(self._look)

    def _high_watermark_advanced(self) -> None:
        if self._watermark_timer is None:
            delay_ms = HIGH_WATERMARK_DELAY_MS
            self._watermark_timer = self._timers.call_later(delay_ms, self._time_is_up)

    def _look(self) -> None:
        self._scheduled = False
        if self.answer.done or self.answer.cancelled:
            return
        if self._is_reading:
            self._is_stale = True
            return
        self._is_reading = True
        try:
            result = self._read()
        except Exception as failure:
            self._fail(failure)
            return
        if isinstance(result, Deferred):
            result.on_complete(self._take)
            result.on_abandon(lambda: self._fail(result.failure))
        else:
            self._take(result)

    def _time_is_up(self) -> None:
        self._is_late = True
        self._look()

    def _take(self, result: FetchResult) -> None:
        self._is_reading = False
        if self.answer.done or self.answer.cancelled:
            return
        if self._cold is not None:
            self._cold.prefetch(self._wake)
        if self._is_late or result.size >= self._min_bytes or result.is_urgent:
            self._release()
            try:
                response = self._respond(result)
            except Exception as failure:
                self.answer.abandon(failure)
                return
            pass_on(response, self.answer)
        elif self._is_stale:
            self._is_stale = False
            self._wake()

    def _fail(self, failure: Exception | None) -> None:
        """Fail the request after a defect has ended the read. Otherwise the request would wait
        forever."""
        self._release()
        self.answer.abandon(failure)

    def _release(self) -> None:
        self._timer.cancel()
        if self._watermark_timer is not None:
            self._watermark_timer.cancel()
        if self._waits is not None:
            self._waits.discard(self._time_is_up)
        if self._unread is not None:
            self._unread.answered(self._wake)
            return
        wake = self._wake
        for partition in self._partitions:
            partition.read_waiters.discard(wake)
