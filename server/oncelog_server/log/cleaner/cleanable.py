"""The part of a log that may be cleaned, its dirty ratio, and the job of the pass (Kafka's
LogCleanerManager)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from oncelog_server.log.cleaner.aborted_rows import AbortedRows
from oncelog_server.log.cleaner.job import CleaningJob, CleaningLimits, Source
from oncelog_server.log.cleaner.last_batches import NO_OFFSET, LastBatches, LastOfProducer
from oncelog_server.log.config import UNLIMITED
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.producers import ProducerEntry
from oncelog_server.log.segment import Segment
from oncelog_server.log.unknown_rows import compute_unknown_rows
from oncelog_server.slices import without_waits

# Number of producers, or of aborted transactions, in one step of the job's preparation.
ROWS_AT_ONCE: Final = 2_000


class Cleanable(NamedTuple):
    """A log with a part to clean, `first_dirty_offset`..`end_offset` (exclusive).

    `ratio`: the share of bytes that are not cleaned yet. `is_due`: True if the first batch of a
    dirty segment is older than `max.compaction.lag.ms`.
    """

    log: PartitionLog
    first_dirty_offset: int
    end_offset: int
    ratio: float
    is_due: bool

    @property
    def is_worth_it(self) -> bool:
        """Return True if the log is dirty enough (`min.cleanable.dirty.ratio`), or dirty for too
        long."""
        return self.is_due or self.ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable(
    log: PartitionLog, last_cleaned_offset: int | None, last_stable_offset: int, now_ms: int
) -> Cleanable | None:
    """Return the part of the log to clean, None if there is nothing to clean.
    `last_cleaned_offset`: the end of the last pass, None without a pass. Only whole segments are
    cleaned, and never the active segment. The part ends before the first segment with an offset at
    or above the last stable offset, and before the first dirty segment with a record younger than
    `min.compaction.lag.ms`. Raises StorageError and CorruptLog."""
    first_dirty = _first_dirty_offset(log, last_cleaned_offset)
    clean_bytes = dirty_bytes = 0
    end_offset = -1
    dirty: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.end_offset > last_stable_offset:
            break
        if segment.end_offset > first_dirty:
            if _is_young(log, segment, now_ms):
                break
            dirty.append(segment)
            dirty_bytes += segment.size
        else:
            clean_bytes += segment.size
        end_offset = segment.end_offset
    if end_offset <= first_dirty or not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    return Cleanable(log, first_dirty, end_offset, ratio, _is_overdue(log, dirty, now_ms))


def _first_dirty_offset(log: PartitionLog, last_cleaned_offset: int | None) -> int:
    """Return the first dirty offset. If the offset of the last pass is outside of the log, the
    whole log is dirty."""
    start = log.log_start_offset
    if last_cleaned_offset is None or not start <= last_cleaned_offset <= log.log_end_offset:
        return start
    return last_cleaned_offset


def _is_young(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    return lag_ms > 0 and segment.latest_timestamp()[0] > now_ms - lag_ms


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= UNLIMITED:
        return False
    times = (segment.first_batch_timestamp() for segment in dirty if segment.size)
    return any(0 < time < now_ms - lag_ms for time in times)


def job_for(
    found: Cleanable, limits: CleaningLimits, now_ms: int
) -> Generator[None, None, CleaningJob | None]:
    """Return the job that cleans `found`, None if retention has deleted segments of it meanwhile.
    Yield after each step, so that the event loop is not blocked. Raises StorageError and
    CorruptLog."""
    log = found.log
    yield from without_waits(compute_unknown_rows(log))
    segments = [segment for segment in log.segments if segment.end_offset <= found.end_offset]
    if not segments:
        return None
    sources = tuple(
        Source(segment.base_offset, segment.end_offset, segment.path(".log"), segment.size)
        for segment in segments
    )
    aborted = AbortedRows()
    first = segments[0].base_offset
    # The generator leaves out segments that retention deletes between two steps.
    bases = (
        segment.base_offset
        for segment in log.segments.from_offset(first)
        if segment.base_offset >= log.segments[0].base_offset
    )
    for rows in log.segments.aborted.collect_in_steps(bases, first, found.end_offset):
        yield
        for number, row in enumerate(rows, 1):
            aborted.add(row)
            if not number % ROWS_AT_ONCE:
                yield
    producers = LastBatches()
    for number, entry in enumerate(list(log.producers), 1):
        producers.add(entry.producer_id, _last_of(entry))
        if not number % ROWS_AT_ONCE:
            yield
    if log.segments[0].base_offset != first:
        return None
    return CleaningJob(
        sources, found.first_dirty_offset, aborted, producers, log.config, limits, now_ms
    )


def _last_of(entry: ProducerEntry) -> LastOfProducer:
    return LastOfProducer(entry.last_offset if entry.batches else NO_OFFSET, entry.producer_epoch)
