"""The two clocks of the client's edges, in ms."""

from __future__ import annotations

import time


def monotonic_ms() -> float:
    """For deadlines and timers: never goes back."""
    return time.monotonic() * 1000


def wall_ms() -> int:
    """For the timestamps of records: since 1970."""
    return time.time_ns() // 1_000_000
