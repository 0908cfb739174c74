"""Ends a turn of the event loop when long work has used a slice of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from oncelog_server.slices import SLICE_MS

# Maximum number of steps in a turn, in addition to the clock. A simulated clock stands still while
# the broker works. A step takes about 30 us.
STEPS_PER_TURN: Final = 100


class Turns:
    """The turns of one task. `monotonic_ms` is the time in ms."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._ends_ms = monotonic_ms() + SLICE_MS
        self._left = STEPS_PER_TURN

    async def step(self) -> None:
        """Call this after each step. Let other callbacks of the loop run if the slice is spent.
        After an earlier wait of the task, the slice may be spent at its first step."""
        self._left -= 1
        if self._left <= 0 or self._monotonic_ms() >= self._ends_ms:
            await asyncio.sleep(0)
            self._ends_ms = self._monotonic_ms() + SLICE_MS
            self._left = STEPS_PER_TURN
