"""How long to wait before the next attempt: exponential, capped, jittered (KIP-580)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

_JITTER = 0.2
# Beyond this the cap has long been reached, and the power would overflow.
_MOST_DOUBLINGS = 30


class Backoff(NamedTuple):
    """From `initial_ms`, doubling, to `max_ms`; both as the settings of that name."""

    initial_ms: float
    max_ms: float

    def delay_ms(self, failures: int, randomness: float) -> float:
        """The wait after `failures` (1 or more) failures in a row; `randomness` is drawn from 0..1.

        The jitter of 20 % either way keeps clients that failed together from coming back together.
        """
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        delay = min(self.initial_ms * (1 << doublings), self.max_ms)
        return delay * (1 + _JITTER * (2 * randomness - 1))


class Pauses(Generic[K]):
    """What failed lately, by key: how often in a row, and until when it is not tried again."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[K, int] = {}
        self._until_ms: dict[K, float] = {}

    def failed(self, key: K, now_ms: float, randomness: float, *, free: int = 0) -> float:
        """Note a failure, and return when to try again; at once after the first `free` ones."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        until_ms = now_ms + self._backoff.delay_ms(failures - free, randomness)
        self._until_ms[key] = until_ms
        return until_ms

    def succeeded(self, key: K) -> None:
        """Note a success: the next failure is the first one again."""
        if key in self._failures:
            del self._failures[key], self._until_ms[key]

    def until_ms(self, key: K) -> float:
        """Return when to try again; 0 for what has not failed."""
        return self._until_ms.get(key, 0.0)

    def next_ms(self, now_ms: float) -> float | None:
        """Return when the first of the pauses ends; None if all have."""
        return min((until for until in self._until_ms.values() if until > now_ms), default=None)
