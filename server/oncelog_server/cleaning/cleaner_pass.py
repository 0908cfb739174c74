"""A pass of the cleaner: the compaction of one log, up to the swap of its segments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from oncelog_server.cleaning.turns import run_in_turns
from oncelog_server.cleaning.work import CleaningWork, StartWork
from oncelog_server.log.cleaner.cleanable import Cleanable, job_for
from oncelog_server.log.cleaner.job import (
    Chunk,
    Cleaned,
    CleanerStats,
    CleaningEvent,
    CleaningJob,
    CleaningLimits,
)
from oncelog_server.log.cleaner.replacement import Replacement, SegmentsGone
from oncelog_server.log.errors import CorruptLog
from oncelog_server.partition.partition import Partition
from oncelog_server.storage.files import StorageError
from oncelog_server.timers import Timers


class PassOwner(Protocol):
    """The part of the cleaner that a pass calls."""

    def holds(self, partition: Partition) -> bool:
        """Return True if the log may still be cleaned."""
        ...

    def now_ms(self) -> int: ...

    def passed(self, partition: Partition, done: CleanerStats | None) -> None:
        """End a pass. `done` is None if the pass ended early because its log changed."""
        ...

    def starved(self, partition: Partition) -> None:
        """End a pass that got too little processor time."""
        ...

    def failed(self, partition: Partition, error: StorageError | CorruptLog) -> None:
        """End a pass that failed."""
        ...

    def broken(self, partition: Partition, error: Exception) -> None:
        """End a pass that a defect has stopped."""
        ...


class Pass:
    """The cleaning of one log. `CleaningWork` reads the log and sends the compacted data in chunks.
    The pass writes the chunks to new segments, and puts these in place of the old segments."""

    def __init__(
        self, owner: PassOwner, timers: Timers, partition: Partition, found: Cleanable
    ) -> None:
        self._owner = owner
        self._timers = timers
        self.partition = partition
        self._found = found
        self._replacement = Replacement(found.log)
        self._work: CleaningWork | None = None
        self._cancelled = False

    def start(self, start_work: StartWork, limits: CleaningLimits, now_ms: int) -> None:
        def begin(job: CleaningJob | None) -> None:
            if self._cancelled:
                return
            if job is None:
                self._end_early()
                return
            with self._guarded():
                self._work = start_work(job, self)

        self._found.log.clean_part.begin_pass(self.drop)
        steps = job_for(self._found, limits, now_ms)
        run_in_turns(self._timers, steps, begin, self.on_failure)

    def cancel(self) -> None:
        """End the pass, and remove its files."""
        self._stop()
        self._replacement.abandon()

    def drop(self) -> None:
        """End the pass, without a change of its files. The owner learns it in a later turn of the
        event loop, because the caller may be about to change the log."""
        if self._cancelled:
            return
        self._stop()
        self._replacement.drop()
        self._timers.call_soon(partial(self._owner.passed, self.partition, None))

    def _stop(self) -> None:
        self._cancelled = True
        self._found.log.clean_part.pass_ended()
        if self._work is not None:
            self._work.cancel()

    def _end_early(self) -> None:
        self.cancel()
        self._owner.passed(self.partition, None)

    async def gone(self) -> None:
        if self._work is not None:
            await self._work.gone()

    def on_event(self, event: CleaningEvent) -> None:
        if self._cancelled:
            return
        if not self._owner.holds(self.partition):
            self._end_early()
        elif isinstance(event, CleanerStats):
            self._found.log.clean_part.pass_ended()
            self._found.log.clean_part.extend(event.end_offset)
            self._owner.passed(self.partition, event)
        else:
            with self._guarded():
                if isinstance(event, Chunk):
                    self._replacement.write(event)
                elif isinstance(event, Cleaned):
                    self._finish(event)

    def on_starved(self) -> None:
        if not self._cancelled:
            self.cancel()
            self._owner.starved(self.partition)

    def on_failure(self, error: Exception) -> None:
        if self._cancelled:
            return
        try:
            self.cancel()
        finally:
            if isinstance(error, (StorageError, CorruptLog)):
                self._owner.failed(self.partition, error)
            else:
                self._owner.broken(self.partition, error)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """End the pass after an exception. Otherwise the cleaner would wait for this pass
        forever."""
        try:
            yield
        except SegmentsGone:
            # The old segments were not replaced. The part that counts as clean must not grow, and
            # later segments must keep the tombstones of records that may still be in the log.
            self._end_early()
        except Exception as error:
            self.on_failure(error)

    def _finish(self, cleaned: Cleaned) -> None:
        """Finish a new segment and put it in place of the old segments. The work pauses until the
        end of the swap, because `Replacement` writes one segment at a time."""
        assert self._work is not None
        self._work.pause()
        self._replacement.finish(cleaned, lambda error: self._swap(cleaned, error))

    def _swap(self, cleaned: Cleaned, error: StorageError | None) -> None:
        with self._guarded():
            if error is not None:
                raise error
            if self._owner.holds(self.partition):
                self._replacement.swap(cleaned, self._owner.now_ms(), self._swapped)
            else:
                self._end_early()

    def _swapped(self, error: StorageError | None) -> None:
        if error is not None:
            self.on_failure(error)
        elif self._work is not None and not self._cancelled:
            with self._guarded():
                self._work.resume()
