"""A Fetch that waits for data: no task, one timer, woken by the partitions it reads (KIP-227,
min_bytes)."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.coordination.timers import Timer, Timers
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.read import FetchResult
from oncelog_server.partition.partition import Partition


class ParkedFetch:
    """Reads again when one of its partitions has something new, until there is enough or time is
    up.

    Several partitions that move in one turn of the loop wake it once.
    """

    __slots__ = ("_min_bytes", "_partitions", "_read", "_scheduled", "_timer", "_timers", "answer")

    def __init__(
        self,
        partitions: list[Partition],
        read: Callable[[], FetchResult],
        *,
        min_bytes: int,
        max_wait_ms: int,
        timers: Timers,
    ) -> None:
        self.answer: Deferred[FetchResult] = Deferred()
        self._partitions = partitions
        self._read = read
        self._min_bytes = min_bytes
        self._timers = timers
        self._scheduled = False
        for partition in partitions:
            partition.read_waiters.add(self._poke)
        self._timer: Timer = timers.call_later(max_wait_ms, self._time_is_up)
        self.answer.on_cancel(self._release)

    def _poke(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._timers.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        if self.answer.done or self.answer.cancelled:
            return
        self._answer_if(lambda result: result.size >= self._min_bytes or result.has_error)

    def _time_is_up(self) -> None:
        if not self.answer.done and not self.answer.cancelled:
            self._answer_if(lambda _: True)

    def _answer_if(self, is_enough: Callable[[FetchResult], bool]) -> None:
        """A read that fails by a defect fails this request: it must not wait for ever."""
        try:
            result = self._read()
        except Exception as failure:
            self._release()
            self.answer.abandon(failure)
            return
        if is_enough(result):
            self._release()
            self.answer.complete(result)

    def _release(self) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.read_waiters.discard(self._poke)
