"""The event loop's timers as an implementation of `Timers`, for the pure packages (those without
IO)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LoopTimers:
    """The `Timers` of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)
