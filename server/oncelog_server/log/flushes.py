"""The flushes of one log that are in flight, and the moment at which each of them is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oncelog_server.deferred import Deferred
from oncelog_server.log.results import Flush


@dataclass(slots=True)
class _Ended:
    """A flush that has ended. It is settled once the flushes `overlapped` have ended too."""

    overlapped: list[Flush]
    counts: Callable[[], bool]
    settled: Deferred[bool]


class Flushes:
    """The flushes in flight. The caller of `begin` must call `end`, also after an error.

    Linux reports a failed writeback once for each open file. If two syncs of a file overlap, only
    one of them gets the error, and the other succeeds although bytes are lost. So a flush is
    settled after all flushes that it overlapped have ended, and it counts only if none of them has
    failed.
    """

    __slots__ = ("_ended", "_in_flight")

    def __init__(self) -> None:
        self._in_flight: list[Flush] = []
        self._ended: list[_Ended] = []

    def begin(self, flush: Flush) -> Flush:
        self._in_flight.append(flush)
        return flush

    def end(self, flush: Flush, counts: Callable[[], bool]) -> Deferred[bool]:
        """End `flush`. Return the result of `counts`, which is called when the flush is settled."""
        self._in_flight = [other for other in self._in_flight if other is not flush]
        for ended in self._ended:
            ended.overlapped = [other for other in ended.overlapped if other is not flush]
        due = [ended for ended in self._ended if not ended.overlapped]
        self._ended = [ended for ended in self._ended if ended.overlapped]
        settled = self.after(counts)
        for ended in due:
            ended.settled.complete(ended.counts())
        return settled

    def after(self, counts: Callable[[], bool]) -> Deferred[bool]:
        """Return the result of `counts`, which is called once all present flushes have ended."""
        settled: Deferred[bool] = Deferred()
        if self._in_flight:
            self._ended.append(_Ended(list(self._in_flight), counts, settled))
        else:
            settled.complete(counts())
        return settled
