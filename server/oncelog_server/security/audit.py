"""Bounds the log events of refused clients. A client can cause such an event with every connection,
or with every request."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import msgspec

# Time until a further event of the same kind and client is logged.
REPEAT_MS: Final = 60_000
# Maximum number of different kinds and clients that are remembered. Clients choose their addresses.
MOST_KEYS: Final = 1_000


class _Seen(msgspec.Struct):
    """An event that was logged at `logged_ms`, and `count` like it since then."""

    logged_ms: int
    count: int = 0


class BoundedEvents:
    """Calls `log(count, **fields)` for the first event of a key at once, then at most once a
    minute. `count` is the number of events since the last call, this one included."""

    def __init__(self, log: Callable[..., None], monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        # The least recently logged key first.
        self._seen: dict[Hashable, _Seen] = {}
        # Events since the start, also those that were not logged.
        self.total = 0

    def add(self, key: Hashable, **fields: object) -> bool:
        """Count an event, and log it if it is due. Return False if more different keys occur in a
        minute than are remembered; the event is then never logged."""
        self.total += 1
        now_ms = self._monotonic_ms()
        seen = self._seen.get(key)
        if seen is not None and now_ms - seen.logged_ms < REPEAT_MS:
            seen.count += 1
            return True
        if seen is not None:
            del self._seen[key]
        elif len(self._seen) >= MOST_KEYS:
            oldest = next(iter(self._seen))
            if now_ms - self._seen[oldest].logged_ms < REPEAT_MS:
                return False
            del self._seen[oldest]
        self._seen[key] = _Seen(now_ms)
        self._log(count=1 if seen is None else seen.count + 1, **fields)
        return True
