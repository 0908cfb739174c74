"""The wait before the next attempt: exponential, capped, jittered (KIP-580)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

_JITTER = 0.2
# More doublings would overflow. The cap is reached long before.
_MOST_DOUBLINGS = 30


class Backoff(NamedTuple):
    """A backoff that doubles from `initial_ms` up to `max_ms`, for example from `retry_backoff_ms`
    up to `retry_backoff_max_ms`."""

    initial_ms: float
    max_ms: float

    def delay_ms(self, failures: int, randomness: float) -> float:
        """Return the wait in ms after this number of failures in a row. Below 1 failure the wait is
        0. `randomness` is in 0..1.

        A jitter of 20 % in both directions spreads the retries of clients that failed at the same
        time.
        """
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        delay = min(self.initial_ms * (1 << doublings), self.max_ms)
        return delay * (1 + _JITTER * (2 * randomness - 1))


class Pauses(Generic[K]):
    """Recent failures by key. A key has the number of failures in a row, and the time of the next
    attempt."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[K, int] = {}
        self._until_ms: dict[K, float] = {}

    def failed(self, key: K, now_ms: float, randomness: float, *, free: int = 0) -> float:
        """Record a failure and return the time of the next attempt. The first `free` failures are
        retried at once."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        until_ms = now_ms + self._backoff.delay_ms(failures - free, randomness)
        self._until_ms[key] = until_ms
        return until_ms

    def succeeded(self, key: K) -> None:
        """Record a success: the number of failures in a row starts again at 0."""
        if key in self._failures:
            del self._failures[key], self._until_ms[key]

    def until_ms(self, key: K) -> float:
        """Return the time of the next attempt, or 0 without a failure."""
        return self._until_ms.get(key, 0.0)

    def next_ms(self, now_ms: float) -> float | None:
        """Return the earliest end of a pause, or None if all pauses have ended."""
        return min((until for until in self._until_ms.values() if until > now_ms), default=None)
