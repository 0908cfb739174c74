"""The two clocks of a process. The monotonic clock has a drift. The wall clock has an offset, steps
and pauses."""

from __future__ import annotations

from typing import Final

from tests.simulation.loop import SimLoop

# 2026-01-01, so that simulated times look real.
EPOCH_MS: Final = 1_767_225_600_000


class SimClock:
    """The clocks of a process. `drift_ppm`: how much faster the monotonic clock runs than the
    world's clock."""

    def __init__(self, loop: SimLoop, drift_ppm: int = 0) -> None:
        self._loop = loop
        self._drift_ppm = drift_ppm
        self.wall_offset_ms = 0
        self._frozen_at_ms: int | None = None

    def now_ms(self) -> int:
        if self._frozen_at_ms is not None:
            return self._frozen_at_ms
        return EPOCH_MS + self.wall_offset_ms + self._loop.now_us // 1000

    def monotonic_ms(self) -> int:
        return self._monotonic_us() // 1_000

    def monotonic_ns(self) -> int:
        return self._monotonic_us() * 1_000

    def boottime_ms(self) -> int:
        return self.monotonic_ms()

    def _monotonic_us(self) -> int:
        now_us = self._loop.now_us
        return now_us + now_us * self._drift_ppm // 1_000_000

    def step_wall(self, by_ms: int) -> None:
        self.wall_offset_ms += by_ms

    def freeze_wall(self) -> None:
        self._frozen_at_ms = self.now_ms()

    def unfreeze_wall(self) -> None:
        self._frozen_at_ms = None
