"""How long to wait before the next attempt: exponential, capped, jittered (KIP-580)."""

from __future__ import annotations

from dataclasses import dataclass

_JITTER = 0.2
# Beyond this the cap has long been reached, and the power would overflow.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """From `initial_ms`, doubling, to `max_ms`; both as the settings of that name."""

    initial_ms: float
    max_ms: float

    def delay_ms(self, failures: int, chance: float) -> float:
        """The wait after `failures` (1 or more) failures in a row; `chance` is drawn from 0..1.

        The jitter of 20 % either way keeps clients that failed together from coming back together.
        """
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        delay = min(self.initial_ms * (1 << doublings), self.max_ms)
        return delay * (1 + _JITTER * (2 * chance - 1))
