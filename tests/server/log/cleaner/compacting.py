"""A log that a test compacts at once. The cleaner does the same work in steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from oncelog_protocol.records.batch import BatchHeader, build_batch, read_records, split_batches
from oncelog_protocol.records.record import NewRecord, Record
from oncelog_server.log.cleaner.cleanable import Cleanable, cleanable, job_for
from oncelog_server.log.cleaner.cleaning import clean
from oncelog_server.log.cleaner.job import (
    Chunk,
    Cleaned,
    CleanerStats,
    CleaningJob,
    CleaningLimits,
)
from oncelog_server.log.cleaner.replacement import Replacement
from oncelog_server.log.config import COMPACT, LogConfig
from oncelog_server.log.results import Appended
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import DIRECTORY, MANY, NOW_MS, Driver, apply_retention

COMPACTED = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    file_delete_delay_ms=0,
    delete_retention_ms=1_000,
    min_cleanable_dirty_ratio=0.0,
    cleanup_policy=frozenset({COMPACT}),
)
LIMITS = CleaningLimits(io_buffer_bytes=200)


def job_of(found: Cleanable, now_ms: int, limits: CleaningLimits = LIMITS) -> CleaningJob:
    steps = job_for(found, limits, now_ms)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            job: CleaningJob = ended.value
            return job


@dataclass
class Compacting(Driver):
    """A driver that writes records with keys. `compact` compacts the log."""

    config: LogConfig = COMPACTED
    limits: CleaningLimits = LIMITS
    cleaned_to: int | None = field(default=None)

    def put(
        self, *pairs: tuple[str, str | None], producer_id: int = -1, sequence: int = -1,
        epoch: int = -1, transactional: bool = False, timestamp: int = NOW_MS, **fields: Any,
    ) -> Appended:  # fmt: skip
        """Append one batch of keys and values, None for a deletion."""
        new = [
            NewRecord(timestamp, key.encode(), None if value is None else value.encode())
            for key, value in pairs
        ]
        data = build_batch(
            new, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
            is_transactional=transactional, **fields,
        )  # fmt: skip
        return self.append(data)

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def configure(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)
        self.log.reconfigure(self.config)

    def stable(self) -> int:
        unstable = self.log.first_unstable_offset(MANY)
        return self.log.log_end_offset if unstable is None else unstable

    def cleanable(self) -> Cleanable | None:
        return cleanable(self.log, self.cleaned_to, self.stable(), self.now_ms)

    def compact(self, before_swap: Callable[[], object] = lambda: None) -> CleanerStats | None:
        """Run one pass. Return None if there is nothing to clean. `before_swap` runs when
        a new segment is complete and not yet swapped in. Other work of the broker may run then."""
        found = self.cleanable()
        if found is None:
            return None
        replacement = self.replacement = Replacement(self.log)
        for event in clean(job_of(found, self.now_ms, self.limits), self.log.files):
            if isinstance(event, Chunk):
                replacement.write(event)
            elif isinstance(event, Cleaned):
                errors: list[StorageError | None] = []
                replacement.finish(event, errors.append)
                self.files.settle()
                if errors == [None]:
                    before_swap()
                    replacement.swap(event, self.now_ms, errors.append)
                    self.files.settle()
                for error in errors:
                    if error is not None:
                        raise error
            elif isinstance(event, CleanerStats):
                self.cleaned_to = event.end_offset
                apply_retention(self.log, self.now_ms, self.log.log_end_offset)
                self.files.settle()
                return event
        raise AssertionError("the pass does not end")

    def batches(self) -> list[tuple[BatchHeader, list[Record]]]:
        """Return all batches in the `.log` files."""
        found = []
        for name in self.files.list(DIRECTORY):
            if not name.endswith(".log"):
                continue
            file = self.files.open(f"{DIRECTORY}/{name}")
            data = file.read(0, file.size)
            for position, header in split_batches(data):
                found.append((header, read_records(data, position, max_bytes=MANY)))
        return found

    def contents(self) -> list[tuple[int, str, str | None]]:
        """Return offset, key and value of every record in the files, without markers."""
        return [
            (record.offset, (record.key or b"").decode(), _text(record.value))
            for header, records in self.batches()
            for record in records
            if not header.is_control
        ]

    def markers(self) -> list[int]:
        return [header.base_offset for header, records in self.batches()
                if header.is_control and records]  # fmt: skip


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def read_committed(driver: Compacting) -> dict[str, str | None]:
    """Return the latest value of every key for a read_committed reader, None for deleted keys."""
    log = driver.log
    stable = driver.stable()
    aborted = log.aborted_transactions(log.log_start_offset, stable)
    latest: dict[str, str | None] = {}
    position = log.log_start_offset
    while True:
        answer = log.read(position, 300, limit=stable, at_least_one=True)
        if answer.records is None:
            return latest
        data = answer.records.read()
        read_from = position
        for start, header in split_batches(data, allow_partial=True):
            position = header.next_offset
            if header.is_control or any(
                row.producer_id == header.producer_id
                and row.first_offset <= header.base_offset < row.last_offset
                and header.is_transactional
                for row in aborted
            ):
                continue
            for record in read_records(data, start, max_bytes=MANY):
                latest[(record.key or b"").decode()] = _text(record.value)
        assert position > read_from, "the position of the reader must advance"


def producers_by_scan(driver: Compacting) -> dict[int, tuple[int, int, int, int]]:
    """Return (epoch, last sequence, last offset, first offset of the open transaction) of every
    producer, from the bytes alone. The coordinator epoch is left out, because compaction may remove
    the marker that has it, as in Kafka."""
    producers: dict[int, tuple[int, int, int, int]] = {}
    for header, records in driver.batches():
        if header.producer_id < 0 or (header.is_control and not records):
            continue
        epoch, sequence, last, first = producers.get(header.producer_id, (-1, -1, -1, -1))
        if epoch != header.producer_epoch:
            sequence = last = -1
        if header.is_control:
            first = -1
        else:
            sequence, last = header.last_sequence, header.last_offset
            if header.is_transactional and first < 0:
                first = header.base_offset
        producers[header.producer_id] = (header.producer_epoch, sequence, last, first)
    return producers
