"""Connections that are muted for a time, because their clients have exceeded a quota (KIP-219). One
timer of the loop serves all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

# The heap is cleaned up if it has more entries than this, and more than twice as many as muted
# connections. Closed connections leave entries behind.
_CLEANED_FROM: Final = 64


class Mutes:
    """Calls `unmute` of a connection when its time is over. Times are milliseconds of
    `monotonic_ms`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._monotonic_ms = monotonic_ms
        self._numbers = count()
        self._callbacks: dict[int, Callable[[], None]] = {}
        # (time, number), the earliest first.
        self._heap: list[tuple[int, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        # Time at which the timer fires.
        self._fires_ms = 0

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, until_ms: int, unmute: Callable[[], None]) -> int:
        """Call `unmute` at a time. Return the number for `discard`."""
        number = next(self._numbers)
        self._callbacks[number] = unmute
        heappush(self._heap, (until_ms, number))
        self._arm()
        return number

    def discard(self, number: int) -> None:
        """Forget a connection, because it is closed."""
        self._callbacks.pop(number, None)
        if len(self._heap) > max(_CLEANED_FROM, 2 * len(self._callbacks)):
            self._heap = [entry for entry in self._heap if entry[1] in self._callbacks]
            heapify(self._heap)

    def close(self) -> None:
        """Make no further calls."""
        self._callbacks.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if not self._heap:
            return
        first_ms = self._heap[0][0]
        if self._timer is not None:
            if self._fires_ms <= first_ms:
                return
            self._timer.cancel()
        self._fires_ms = first_ms
        delay_ms = max(first_ms - self._monotonic_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._monotonic_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            unmute = self._callbacks.pop(heappop(self._heap)[1], None)
            if unmute is not None:
                # In a callback of its own, so that a defect of one connection stops no other.
                self._loop.call_soon(unmute)
        self._arm()
