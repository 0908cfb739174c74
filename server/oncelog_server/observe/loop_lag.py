"""Measures how late the event loop calls a timer. Only a broker with a port for metrics does
this."""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog_server.latencies import Latencies

INTERVAL_S: Final = 0.25


class LoopLag:
    """Measures from `start` to `stop`. `latencies` has the delays."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.latencies = Latencies()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        due = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(due, self._measure, due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self, due: float) -> None:
        self.latencies.add(int((self._loop.time() - due) * 1_000_000))
        self.start()
