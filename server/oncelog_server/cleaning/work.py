"""Who does a pass of the cleaner: steps on the event loop (`slices.py`), or a process of its own
(`processes.py`)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from oncelog_server.log.cleaner.job import CleaningJob, Event
from oncelog_server.log.errors import CorruptLog
from oncelog_server.storage.files import StorageError


class Listener(Protocol):
    """Whom a pass tells what comes of it: events up to Done, or one failure."""

    def on_event(self, event: Event) -> None: ...

    def on_failure(self, error: StorageError | CorruptLog) -> None: ...

    def on_starved(self) -> None:
        """The pass gave way to everybody else until nothing was left for it, and ends: the next one
        should not (`CleaningLimits.gives_way`)."""
        ...


class Work(Protocol):
    """A pass under way; any of these may be called from within `on_event`."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def cancel(self) -> None:
        """Nothing is told any more."""
        ...

    async def gone(self) -> None:
        """Wait until nothing is left of it, after `cancel` or its end."""
        ...


class Starved(NamedTuple):
    """What a starved process says."""

    ran_ms: int
    waited_ms: int


StartWork = Callable[[CleaningJob, Listener], Work]


def pause_ms(size: int, max_bytes_per_second: float) -> int:
    """How long to rest after `size` bytes (`log.cleaner.io.max.bytes.per.second`)."""
    if max_bytes_per_second in (0, inf):
        return 0
    return int(min(size * 1000 / max_bytes_per_second, 60_000))
