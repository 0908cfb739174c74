"""The interface of a cleaner pass. It is the same for a pass on the event loop and in a process.

`slices.py` runs a pass in steps on the event loop. `processes.py` runs a pass in a process.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from oncelog_server.log.cleaner.job import CleaningEvent, CleaningJob


class PassListener(Protocol):
    """Receives the events of a pass. Unless the pass is cancelled, the last call is `on_event` with
    CleanerStats, `on_failure` or `on_starved`."""

    def on_event(self, event: CleaningEvent) -> None: ...

    def on_failure(self, error: Exception) -> None:
        """End the pass. An error other than StorageError and CorruptLog is a defect."""
        ...

    def on_starved(self) -> None:
        """End the pass, because it got too little processor time. The next pass should not have the
        lowest priority (`CleaningLimits.gives_way`).
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
        """Wait until the process of the pass has ended. Call this method after `cancel` or the end
        of the pass."""
        ...


class Starved(NamedTuple):
    """The message of a process that got too little processor time."""

    ran_ms: int
    waited_ms: int


StartWork = Callable[[CleaningJob, PassListener], CleaningWork]


def pause_ms(size: int, max_bytes_per_second: float) -> int:
    """Return the pause in ms after I/O of `size` bytes, at most one minute
    (`log.cleaner.io.max.bytes.per.second`)."""
    if max_bytes_per_second in (0, inf):
        return 0
    return int(min(size * 1000 / max_bytes_per_second, 60_000))
