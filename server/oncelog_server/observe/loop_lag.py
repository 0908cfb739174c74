"""Measures how late the event loop calls a timer. Only a broker with a port for metrics does
this.

The timers that a long stall leaves out count too, each with its own delay: a stall of three seconds
delays whatever arrives within the three seconds. A single sample for it would disappear among the
others."""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog_server.latencies import Latencies

INTERVAL_S: Final = 0.25
# Maximum number of samples of one stall, for ten minutes.
MOST_SAMPLES: Final = 2_400


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
        late_s = self._loop.time() - due
        missed = min(max(int(late_s / INTERVAL_S), 0), MOST_SAMPLES - 1)
        for number in range(missed + 1):
            self.latencies.add(int((late_s - number * INTERVAL_S) * 1_000_000))
        self.start()
