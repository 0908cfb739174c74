"""Requests that wait on a partition: acks for the high watermark, readers for something new to
read.

One list per partition for everything that waits until an offset is committed (Produce with
acks=all, coordinator decisions, markers), because all of them wait for the same thing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from oncelog_protocol.errors import ErrorCode

Settled = Callable[[ErrorCode], None]
Wake = Callable[[], None]


def raise_all(raised: Sequence[Exception]) -> None:
    """What was raised by some of those who were told, after all were: nothing if it is empty, an
    ExceptionGroup if it is several."""
    if len(raised) > 1:
        raise ExceptionGroup("several of those who waited failed", raised)
    for one in raised:
        raise one


class CommitWaiters:
    """Those who wait until the high watermark reaches an offset, in the order of appends.

    All of them are told, also after one that raises; what they raise is raised at the end.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # Offsets never go down: appends come in order.
        self.waiting: deque[tuple[int, Settled]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def wait(self, offset: int, settled: Settled) -> None:
        """Call `settled(NONE)` once the high watermark is at least `offset` (exclusive end of the
        append)."""
        self.waiting.append((offset, settled))

    def advance(self, high_watermark: int) -> None:
        waiting = self.waiting
        raised: list[Exception] = []
        while waiting and waiting[0][0] <= high_watermark:
            _, settled = waiting.popleft()
            try:
                settled(ErrorCode.NONE)
            except Exception as failure:
                raised.append(failure)
        if raised:
            raise_all(raised)

    def fail(self, code: ErrorCode) -> None:
        """The partition is not led from here any more, or its disk failed: what is not committed
        now may never be, and must not be acknowledged."""
        waiting, self.waiting = self.waiting, deque()
        raised: list[Exception] = []
        for _, settled in waiting:
            try:
                settled(code)
            except Exception as failure:
                raised.append(failure)
        raise_all(raised)


class ReadWaiters:
    """Parked fetches: each is poked when there may be something new (KIP-227 sessions included)."""

    __slots__ = ("wakes",)

    def __init__(self) -> None:
        # A dict, not a set: pokes go out in the order of arrival, the same in every run.
        self.wakes: dict[Wake, None] = {}

    def __bool__(self) -> bool:
        return bool(self.wakes)

    def add(self, wake: Wake) -> None:
        self.wakes[wake] = None

    def discard(self, wake: Wake) -> None:
        self.wakes.pop(wake, None)

    def wake_all(self) -> None:
        """All of them, also after one that raises; what they raise is raised at the end."""
        raised: list[Exception] = []
        for wake in list(self.wakes):
            try:
                wake()
            except Exception as failure:
                raised.append(failure)
        raise_all(raised)
