"""The token bucket of one client, as Kafka's TokenBucket (KIP-599)."""

from __future__ import annotations

from oncelog_server.quotas.windows import Windows, as_throttle_ms


class TokenBucket:
    """Tokens that refill at the rate of a quota. A new bucket is full.

    A request may take more tokens than there are. The number is then negative, and the next request
    waits until the number is 0 again.
    """

    __slots__ = ("_tokens", "_updated_ms")

    def __init__(self) -> None:
        self._tokens = 0.0
        # -1 until the first use.
        self._updated_ms = -1

    def record(self, value: float, limit: float, now_ms: int, windows: Windows) -> None:
        """Take `value` tokens."""
        tokens = self.measure(limit, now_ms, windows)
        self._tokens = min(_burst(limit, windows), tokens - value)

    def measure(self, limit: float, now_ms: int, windows: Windows) -> float:
        """Return the number of tokens. `limit` is the number that the bucket gets each second."""
        burst = _burst(limit, windows)
        if self._updated_ms < 0:
            self._tokens = burst
        else:
            refilled = self._tokens + limit * ((now_ms - self._updated_ms) / 1000.0)
            self._tokens = min(burst, refilled)
        self._updated_ms = now_ms
        return self._tokens

    def throttle_ms(self, limit: float, now_ms: int, windows: Windows) -> int:
        """Return the time (ms) until the number of tokens is no longer negative, 0 if it is not
        (Kafka's ControllerMutationQuotaManager.throttleTimeMs)."""
        tokens = self.measure(limit, now_ms, windows)
        return as_throttle_ms(-tokens / limit * 1000) if tokens < 0 else 0


def _burst(limit: float, windows: Windows) -> float:
    return windows.samples * (windows.length_ms / 1000.0) * limit
