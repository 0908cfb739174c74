"""Bounds the log events of refused clients. A client can cause such an event with every connection,
or with every request."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Final

import msgspec

# Time until a further event of the same kind and client is logged.
REPEAT_MS: Final = 60_000
# Maximum number of different kinds and clients that are remembered. Clients choose their addresses.
MOST_KEYS: Final = 1_000


class _Seen(msgspec.Struct):
    """An event that was logged at `logged_ms`, and the number of equal events since then. `fields`
    are those of the last event."""

    logged_ms: int
    fields: Mapping[str, object]
    count: int = 0


class BoundedEvents:
    """Calls `log(count, **fields)` for the first event of a key at once, then at most once a
    minute. `count` is the number of events since the last call, this one included. The fields stay
    in memory for a minute or longer, so they must refer to no connection."""

    def __init__(self, log: Callable[..., None], monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        # The least recently logged key first.
        self._seen: dict[Hashable, _Seen] = {}

    def add(self, key: Hashable, **fields: object) -> bool:
        """Count an event, and log it if it is due. Return False if more different keys occur in a
        minute than are remembered; the event is then never logged."""
        now_ms = self._monotonic_ms()
        seen = self._seen.get(key)
        if seen is not None and now_ms - seen.logged_ms < REPEAT_MS:
            seen.count += 1
            seen.fields = fields
            return True
        if seen is not None:
            del self._seen[key]
        elif len(self._seen) >= MOST_KEYS:
            oldest = next(iter(self._seen))
            if now_ms - self._seen[oldest].logged_ms < REPEAT_MS:
                return False
            self._log_rest(self._seen.pop(oldest))
        self._seen[key] = _Seen(now_ms, fields)
        self._log(count=1 if seen is None else seen.count + 1, **fields)
        return True

    def flush(self) -> None:
        """Log the events that were counted and not logged, because the broker stops."""
        for seen in self._seen.values():
            self._log_rest(seen)

    def _log_rest(self, seen: _Seen) -> None:
        if seen.count:
            self._log(count=seen.count, **seen.fields)
            seen.count = 0


class GroupedEvents:
    """Bounded events with a second key. If more different keys occur in a minute than are
    remembered, the further events are counted together by their group."""

    def __init__(self, log: Callable[..., None], monotonic_ms: Callable[[], int]) -> None:
        self._single = BoundedEvents(log, monotonic_ms)
        self._grouped = BoundedEvents(log, monotonic_ms)

    def add(self, key: Hashable, group: Hashable, **fields: object) -> None:
        """Count an event, and log it if it is due."""
        if not self._single.add(key, **fields):
            self._grouped.add(group, **fields)

    def flush(self) -> None:
        """Log the events that were counted and not logged, because the broker stops."""
        self._single.flush()
        self._grouped.flush()


def kind_of(reason: str) -> str:
    """Return the part of a reason that is the same in all events of its kind: the text before the
    first name or number. A client chooses these, and each would be an event of its own."""
    return re.split("[^A-Za-z ,-]", reason, maxsplit=1)[0]
