"""Timers that fire when a test advances the time, in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class ManualTimer:
    due_ms: int
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class ManualTimers:
    """`now_ms` is the monotonic clock of the code that sets timers."""

    now_ms: int = 0
    armed: list[ManualTimer] = field(default_factory=list)
    soon: list[Callable[[], None]] = field(default_factory=list)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.now_ms + delay_ms, callback)
        self.armed.append(timer)
        return timer

    @property
    def waiting(self) -> list[ManualTimer]:
        return [timer for timer in self.armed if not timer.cancelled]

    def run_soon(self) -> None:
        """Run the callbacks of `call_soon`, including those that they add."""
        while self.soon:
            self.soon.pop(0)()

    def run_turn(self) -> None:
        """Run the callbacks of `call_soon`, without those that they add."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()

    def run_next(self, until_ms: int) -> bool:
        """Run the next timer at its time. Return False if no timer is due up to `until_ms`."""
        self.armed = self.waiting
        due = min(self.armed, key=lambda timer: timer.due_ms, default=None)
        if due is None or due.due_ms > until_ms:
            return False
        self.armed.remove(due)
        self.now_ms = max(self.now_ms, due.due_ms)
        due.callback()
        self.run_soon()
        return True

    def advance(self, by_ms: int) -> None:
        """Let time pass, and run all timers that become due."""
        until = self.now_ms + by_ms
        while self.run_next(until):
            pass
        self.now_ms = until
