"""The job of the cleaner for one pass over one log, and the events of the pass."""

from __future__ import annotations

from math import inf
from typing import NamedTuple, TypeAlias

from oncelog_server.log.cleaner.aborted_rows import AbortedRows
from oncelog_server.log.cleaner.last_batches import LastBatches
from oncelog_server.log.config import LogConfig
from oncelog_server.log.txn_index import AbortedTransaction


class Source(NamedTuple):
    """A closed segment: its first offset, the offset after its last record, its file and size."""

    base_offset: int
    end_offset: int
    path: str
    size: int


class CleaningLimits(NamedTuple):
    """The limits of a pass (`log.cleaner.*`), and of its steps. A step ends after the batch that
    reaches the limit of bytes or the limit of records.

    `decompressed_bytes`: the maximum size of a batch's decompressed records. It is Kafka's: 32 bits
    with a sign. The smaller limit of a Produce would be wrong, because the batch may have been
    appended under other settings of the topic.
    """

    dedupe_buffer_bytes: int = 134_217_728
    io_buffer_bytes: int = 524_288
    load_factor: float = 0.9
    max_bytes_per_second: float = inf
    # True if the pass runs at the lowest priority. The pass may then make no progress on a busy
    # computer.
    gives_way: bool = True
    step_bytes: int = 16 * 1024
    step_records: int = 200
    decompressed_bytes: int = 2**31 - 1


class CleaningJob(NamedTuple):
    """The input of a pass. `sources`: the segments from the start of the log up to the first
    segment that may not be cleaned yet (exclusive). Records from `first_dirty_offset` on replace
    older records with the same key."""

    sources: tuple[Source, ...]
    first_dirty_offset: int
    aborted: AbortedRows
    producers: LastBatches
    config: LogConfig
    limits: CleaningLimits
    now_ms: int

    @property
    def end_offset(self) -> int:
        """Return the first offset that may not be cleaned."""
        return self.sources[-1].end_offset


class Progress(NamedTuple):
    """The number of bytes read and written since the last Progress. The caller may pause after this
    event."""

    size: int


class Chunk(NamedTuple):
    """Bytes of the segment that is being written, in whole batches."""

    base_offset: int
    data: bytes


class Cleaned(NamedTuple):
    """A segment that replaces the segments at `base_offsets` is complete. The indexes are the
    contents of its index files. `markers_dropped`: True if the new segment lacks a marker of the
    old segments."""

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
