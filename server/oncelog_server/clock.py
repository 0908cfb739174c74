"""The two clocks of a broker. They are injected: no other code of the broker reads a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return the wall clock in ms since the epoch, for timestamps that are stored or shown."""
        ...

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms, for every timeout.

        It never goes back, and ignores changes of the wall clock.
        """
        ...

    def monotonic_ns(self) -> int:
        """Return the monotonic time in ns, for spans of microseconds."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()
