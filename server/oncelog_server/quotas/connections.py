"""The rates at which new connections are accepted (KIP-612), as Kafka's ConnectionQuotas."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.rates import Rate
from oncelog_server.quotas.windows import Windows


class _LimitedRate:
    """The rate of a broker or of a listener, and its limit, infinite if there is none."""

    def __init__(self, limit: float, windows: Windows) -> None:
        self._rate = Rate()
        self._limit = limit
        self._windows = windows

    def record(self, value: float, now_ms: int) -> int:
        throttle_ms = self._rate.throttle_ms(value, self._limit, now_ms, self._windows)
        return min(throttle_ms, self._windows.length_ms)


class ConnectionRates:
    """The rates of one broker. Times are milliseconds of a monotonic clock.

    `broker_limit` and `listener_limits` are max.connection.creation.rate, of the broker and with
    the prefix of a listener, in connections per second. The listener for other brokers is
    `protected`: its connections do not count for the broker's limit, if there are other listeners.
    """

    def __init__(
        self,
        gate: QuotaGate,
        broker_limit: float,
        listener_limits: Mapping[str, float],
        protected: str,
        windows: Windows,
    ) -> None:
        self._gate = gate
        self._broker = _LimitedRate(broker_limit, windows)
        self._listeners = {
            name: _LimitedRate(limit, windows) for name, limit in listener_limits.items()
        }
        self._protected = protected if len(listener_limits) > 1 else None

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """Count a new connection. Return for how long (ms) the listener must accept no further
        connection, at most one window."""
        broker_ms = 0 if listener == self._protected else self._broker.record(1.0, now_ms)
        return max(broker_ms, self._listeners[listener].record(1.0, now_ms))

    def refused_ms(self, listener: str, host: str, now_ms: int) -> int:
        """Count a new connection of an address, after `wait_ms`. Return 0 to serve it. Otherwise
        return the time (ms) after which it is to be closed; it then counts nowhere."""
        throttle_ms = self._gate.after_connection(host, now_ms)
        if throttle_ms:
            self._listeners[listener].record(-1.0, now_ms)
            if listener != self._protected:
                self._broker.record(-1.0, now_ms)
        return throttle_ms
