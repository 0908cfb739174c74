"""The two clocks of the client, in ms."""

from __future__ import annotations

import time


def monotonic_ms() -> float:
    """Return the time for deadlines and timers. This clock never goes back."""
    return time.monotonic() * 1000


def wall_ms() -> int:
    """Return the time since 1970, for the timestamps of records."""
    return time.time_ns() // 1_000_000
