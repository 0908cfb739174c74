"""The clocks of a broker. They are injected, so that the simulator has clocks of its own. A module
that reads a clock of the system itself does so only to limit or measure the time of its own
work."""

from __future__ import annotations

import time
from typing import Final, Protocol


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

    def boottime_ms(self) -> int:
        """Return the monotonic time in ms, which also counts while the computer sleeps. It is for
        leases that other computers measure."""
        ...


_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime_ms() -> int:
    """Return the time in ms since an arbitrary point. It also counts while the computer sleeps, if
    the operating system has such a clock."""
    return time.clock_gettime_ns(_BOOTTIME) // 1_000_000


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def boottime_ms(self) -> int:
        return boottime_ms()
