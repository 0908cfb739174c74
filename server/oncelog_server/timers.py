"""The interface of timers. The broker uses the timers of the event loop, and simulated tests use
those of the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the next turn of the loop."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...
