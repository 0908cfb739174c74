"""The interface of a cleaner pass, for steps on the event loop and for a separate process.

The first is in `slices.py`, the second in `processes.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from oncelog_server.log.cleaner.job import CleaningEvent, CleaningJob
from oncelog_server.log.errors import CorruptLog
from oncelog_server.storage.files import StorageError


class PassListener(Protocol):
    """Receives the events of a pass up to Done, or one failure."""

    def on_event(self, event: CleaningEvent) -> None: ...

    def on_failure(self, error: StorageError | CorruptLog) -> None: ...

    def on_starved(self) -> None:
        """End the pass, because it got no processor time. The next pass should not have the lowest
        priority (`CleaningLimits.gives_way`).
        """
        ...


class CleaningWork(Protocol):
    """A running pass. All its methods may be called from within `on_event`."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def cancel(self) -> None:
        """Stop the pass. The listener gets no further event."""
        ...

    async def gone(self) -> None:
        """Wait, after `cancel` or the end of the pass, until its process has ended."""
        ...


class Starved(NamedTuple):
    """The message of a process that got too little processor time."""

    ran_ms: int
    waited_ms: int


StartWork = Callable[[CleaningJob, PassListener], CleaningWork]


def pause_ms(size: int, max_bytes_per_second: float) -> int:
    """Return the pause in ms after `size` bytes (`log.cleaner.io.max.bytes.per.second`)."""
    if max_bytes_per_second in (0, inf):
        return 0
    return int(min(size * 1000 / max_bytes_per_second, 60_000))
