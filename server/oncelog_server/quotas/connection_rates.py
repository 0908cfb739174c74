"""The rates of new connections of a broker and of its listeners (KIP-612)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from oncelog_server.quotas.rates import Rate
from oncelog_server.quotas.windows import Windows

# Replaces a limit of 0. Kafka permits 0, and then delays each connection by the longest throttle
# time.
_NONE: Final = sys.float_info.min


class ConnectionRates:
    """Measures new connections as Kafka's ConnectionQuotas does. Rates are connections per second,
    and times milliseconds of a monotonic clock.

    `of_broker` is the limit of all listeners together, `of_listeners` the limit of each; None and a
    missing listener have no limit. A connection of the `protected` listener counts for its listener
    alone, so that clients do not delay other brokers.
    """

    def __init__(
        self,
        of_broker: int | None,
        of_listeners: Mapping[str, int],
        windows: Windows,
        *,
        protected: str | None = None,
    ) -> None:
        self._windows = windows
        self._of_broker = None if of_broker is None else _Limited(of_broker)
        self._of_listeners = {name: _Limited(limit) for name, limit in of_listeners.items()}
        self._protected = protected

    def has_limits_of(self, other: ConnectionRates) -> bool:
        """Return True if both have the same limits."""
        return self._limits() == other._limits()

    def _limits(self) -> tuple[float | None, dict[str, float]]:
        of_broker = None if self._of_broker is None else self._of_broker.limit
        return of_broker, {name: limited.limit for name, limited in self._of_listeners.items()}

    def record(self, listener: str, now_ms: int) -> int:
        """Count a new connection. Return for how long (ms) the listener must accept no connection:
        at most one window."""
        longest = max(
            (limited.throttle_ms(1.0, now_ms, self._windows) for limited in self._rates(listener)),
            default=0,
        )
        return min(longest, self._windows.length_ms)

    def take_back(self, listener: str, now_ms: int) -> None:
        """Take a counted connection back, because its address exceeds its own rate."""
        for limited in self._rates(listener):
            limited.throttle_ms(-1.0, now_ms, self._windows)

    def _rates(self, listener: str) -> list[_Limited]:
        of_broker = None if listener == self._protected else self._of_broker
        both = (of_broker, self._of_listeners.get(listener))
        return [limited for limited in both if limited is not None]


class _Limited:
    """A rate and its limit."""

    def __init__(self, limit: int) -> None:
        self._rate = Rate()
        self.limit = limit or _NONE

    def throttle_ms(self, value: float, now_ms: int, windows: Windows) -> int:
        return self._rate.throttle_ms(value, self.limit, now_ms, windows)
