"""A pass of the cleaner on the event loop, one step at a time.

The simulation uses this module, because the simulation has a single process, and the duration of a
step does not matter there.
"""

from __future__ import annotations

from oncelog_server.cleaning.work import PassListener, pause_ms
from oncelog_server.log.cleaner.cleaning import clean
from oncelog_server.log.cleaner.job import CleanerStats, CleaningJob, Progress
from oncelog_server.storage.files import Files
from oncelog_server.timers import Timers


class SlicedWork:
    """A `CleaningWork` that runs on the event loop."""

    def __init__(
        self, files: Files, timers: Timers, job: CleaningJob, listener: PassListener
    ) -> None:
        self._steps = clean(job, files)
        self._rate = job.limits.max_bytes_per_second
        self._timers = timers
        self._listener = listener
        self._paused = False
        self._ended = False
        timers.call_soon(self._step)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._timers.call_soon(self._step)

    def cancel(self) -> None:
        self._ended = True
        self._steps.close()

    async def gone(self) -> None:
        pass

    def _step(self) -> None:
        if self._ended or self._paused:
            return
        try:
            event = next(self._steps)
        except Exception as error:
            self._ended = True
            self._listener.on_failure(error)
            return
        self._ended = isinstance(event, CleanerStats)
        self._listener.on_event(event)
        if self._ended or self._paused:
            return
        rest_ms = pause_ms(event.size, self._rate) if isinstance(event, Progress) else 0
        if rest_ms:
            self._timers.call_later(rest_ms, self._step)
        else:
            self._timers.call_soon(self._step)
