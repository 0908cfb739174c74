"""Requests that wait on a partition. Responses to Produce wait for the high watermark, and readers
wait for new records. Produce with acks=all, coordinator decisions and markers share one list,
because all of them wait until an offset is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from oncelog_protocol.errors import ErrorCode

Settled = Callable[[ErrorCode], None]
Wake = Callable[[], None]


def raise_all(raised: Sequence[Exception]) -> None:
    """Re-raise the callbacks' exceptions after all callbacks have run. Raise a single exception
    itself, and several as an ExceptionGroup."""
    if len(raised) > 1:
        raise ExceptionGroup("several waiting requests failed", raised)
    for failure in raised:
        raise failure


class CommitWaiters:
    """Callbacks that wait until the high watermark reaches an offset, in the order of appends.

    All callbacks run, even after a callback that raises. The exceptions are raised at the end.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # Offsets never decrease, because appends come in order.
        self.waiting: deque[tuple[int, Settled, bool]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def wait(self, offset: int, settled: Settled, needs_isr: bool = False) -> None:
        """Call `settled(NONE)` once the high watermark is at least `offset`, the exclusive end of
        the append. With `needs_isr`, `end_under_min_isr` also ends the wait."""
        self.waiting.append((offset, settled, needs_isr))

    def advance(self, high_watermark: int) -> None:
        waiting = self.waiting
        raised: list[Exception] = []
        while waiting and waiting[0][0] <= high_watermark:
            _, settled, _ = waiting.popleft()
            try:
                settled(ErrorCode.NONE)
            except Exception as failure:
                raised.append(failure)
        if raised:
            raise_all(raised)

    def fail(self, code: ErrorCode) -> None:
        """End all waits with `code`. Leadership has moved or the disk has failed, so records that
        are not committed yet must not be acknowledged."""
        waiting, self.waiting = self.waiting, deque()
        _settle_all([settled for _, settled, _ in waiting], code)

    def end_under_min_isr(self) -> None:
        """End the waits of producers with NOT_ENOUGH_REPLICAS_AFTER_APPEND. The records may still
        be committed. Coordinators keep waiting, because a failed decision must never be committed
        later."""
        ended = [settled for _, settled, needs_isr in self.waiting if needs_isr]
        if ended:
            self.waiting = deque(entry for entry in self.waiting if not entry[2])
            _settle_all(ended, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def _settle_all(settled: Sequence[Settled], code: ErrorCode) -> None:
    """Call all callbacks, even after a callback that raises. Re-raise the exceptions at the
    end."""
    raised: list[Exception] = []
    for call in settled:
        try:
            call(code)
        except Exception as failure:
            raised.append(failure)
    raise_all(raised)


class ParkedRequests:
    """Parked requests that wake together: fetches, also those of fetch sessions (KIP-227), when
    there may be new records, and DeleteRecords when a follower may have a new log start."""

    __slots__ = ("wakes",)

    def __init__(self) -> None:
        # A dict keeps the order of arrival. Fetches wake in this order, the same in every run.
        self.wakes: dict[Wake, None] = {}

    def __bool__(self) -> bool:
        return bool(self.wakes)

    def add(self, wake: Wake) -> None:
        self.wakes[wake] = None

    def discard(self, wake: Wake) -> None:
        self.wakes.pop(wake, None)

    def wake_all(self) -> None:
        """Wake all fetches, even after a fetch that raises. The exceptions are raised at the
        end."""
        raised: list[Exception] = []
        for wake in list(self.wakes):
            try:
                wake()
            except Exception as failure:
                raised.append(failure)
        raise_all(raised)
