"""Clocks and timers that a test can advance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_server.clock import SystemClock


class ShiftedClock(SystemClock):
    """The operating system's clocks, ahead by `shift_ms`."""

    def __init__(self) -> None:
        self.shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.shift_ms

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.shift_ms * 1_000_000

    def boottime_ms(self) -> int:
        return super().boottime_ms() + self.shift_ms


class ShiftedTimer:
    """A timer that is due at `due_ms` of the clock."""

    __slots__ = ("_forget", "callback", "due_ms", "handle")

    def __init__(
        self, due_ms: int, callback: Callable[[], None], forget: Callable[[ShiftedTimer], None]
    ) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.handle: asyncio.TimerHandle | None = None
        self._forget = forget

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        self._forget(self)


class ShiftedTimers:
    """The `Timers` of an event loop. They obey a ShiftedClock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ShiftedClock) -> None:
        self._loop = loop
        self._clock = clock
        self._pending: dict[ShiftedTimer, None] = {}

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> ShiftedTimer:
        timer = ShiftedTimer(self._clock.monotonic_ms() + delay_ms, callback, self._forget)
        self._pending[timer] = None
        self._arm(timer, delay_ms)
        return timer

    def follow_clock(self) -> None:
        """Arm all timers again after the clock was advanced. Timers that are due run in the next
        turns of the loop, in the order of their times."""
        now_ms = self._clock.monotonic_ms()
        for timer in sorted(self._pending, key=lambda timer: timer.due_ms):
            if timer.handle is not None:
                timer.handle.cancel()
            self._arm(timer, max(timer.due_ms - now_ms, 0))

    def _arm(self, timer: ShiftedTimer, delay_ms: int) -> None:
        timer.handle = self._loop.call_later(delay_ms / 1000, self._run, timer)

    def _run(self, timer: ShiftedTimer) -> None:
        self._forget(timer)
        timer.callback()

    def _forget(self, timer: ShiftedTimer) -> None:
        self._pending.pop(timer, None)
