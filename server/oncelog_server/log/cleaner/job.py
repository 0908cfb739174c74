"""One pass over one log: the job of the cleaner and the events that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple, TypeAlias

from oncelog_server.log.config import LogConfig
from oncelog_server.log.txn_index import AbortedTransaction

NO_OFFSET: Final = -1


class Source(NamedTuple):
    """A closed segment: its first offset, the first after it, its file and the bytes in it."""

    base_offset: int
    end_offset: int
    path: str
    size: int


class LastOfProducer(NamedTuple):
    """What must survive of a live producer: the batch with `data_offset`, or where there is none
    (NO_OFFSET) its marker with `epoch`."""

    data_offset: int
    epoch: int


class CleaningLimits(NamedTuple):
    """What a pass may use (`log.cleaner.*`), and how long one step of it may be: so many bytes or
    so many records, whichever comes first, but whole batches."""

    dedupe_buffer_bytes: int = 134_217_728
    io_buffer_bytes: int = 524_288
    load_factor: float = 0.9
    max_bytes_per_second: float = inf
    # Whether the process gives way to all others, also where that leaves it nothing.
    gives_way: bool = True
    step_bytes: int = 16 * 1024
    step_records: int = 200


class CleaningJob(NamedTuple):
    """`sources` are all segments from the start of the log up to the first that may not be cleaned
    yet; keys from `first_dirty_offset` on make older records of theirs go."""

    sources: tuple[Source, ...]
    first_dirty_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, LastOfProducer]
    config: LogConfig
    limits: CleaningLimits
    now_ms: int

    @property
    def end_offset(self) -> int:
        """The first offset that may not be cleaned."""
        return self.sources[-1].end_offset


class Progress(NamedTuple):
    """So many bytes were read and written since the last event: a good moment to pause."""

    size: int


class Chunk(NamedTuple):
    """Bytes of the segment that is being written, whole batches."""

    base_offset: int
    data: bytes


class Cleaned(NamedTuple):
    """All chunks of a segment that takes the place of `base_offsets` have been given out; with
    them go these index files. `markers_dropped`: it has fewer control batches than there were."""

    base_offsets: tuple[int, ...]
    end_offset: int
    offset_index: bytes
    time_index: bytes
    aborted: tuple[AbortedTransaction, ...]
    markers_dropped: bool


class CleanerStats(NamedTuple):
    """The log is clean up to `end_offset`. Source: Kafka's CleanerStats."""

    end_offset: int
    bytes_read: int = 0
    bytes_kept: int = 0
    records_read: int = 0
    records_kept: int = 0


CleaningEvent: TypeAlias = Progress | Chunk | Cleaned | CleanerStats
