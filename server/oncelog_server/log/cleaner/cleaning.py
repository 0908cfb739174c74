"""One pass of the cleaner over one log, in small steps (Kafka's Cleaner.doClean).

A pass first reads the dirty part into a map from keys to their latest offsets. Then the pass
rewrites the log up to the last offset in the map. The new segments have no older records of a key,
no aborted records, and no tombstones and markers past their delete horizon.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from oncelog_protocol.records.batch import BatchHeader, read_header, read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.log.cleaner.batch_filter import BatchFilter
from oncelog_server.log.cleaner.cleaned_transactions import CleanedTransactions
from oncelog_server.log.cleaner.job import (
    Chunk,
    Cleaned,
    CleanerStats,
    CleaningEvent,
    CleaningJob,
    CleaningLimits,
    Progress,
    Source,
)
from oncelog_server.log.cleaner.offset_map import SLOT_BYTES, OffsetMap
from oncelog_server.log.cleaner.segments import Indexes, group
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.scan import Scan
from oncelog_server.storage.files import Files


def clean(job: CleaningJob, files: Files) -> Generator[CleaningEvent, None, None]:
    """Yield the events of the pass. The last event is CleanerStats. The caller writes the chunks
    and indexes to files, because this module writes nothing. Raises CorruptLog and StorageError."""
    offsets = _new_map(job)
    yield from _index(job, files, offsets)
    end_offset = offsets.latest_offset + 1
    transactions = CleanedTransactions(job.aborted)
    batches = BatchFilter(job, offsets, transactions)
    bytes_read = bytes_kept = 0
    wanted = [source for source in job.sources if source.base_offset < end_offset]
    for sources in group(wanted, files, job.config):
        indexes = Indexes(sources[0].base_offset, job.config.index_interval_bytes)
        batches.markers_dropped = False
        transactions.rows = []
        yield from _rewrite(sources, job, files, batches, indexes)
        offset_index, time_index = indexes.encode()
        yield Cleaned(
            tuple(source.base_offset for source in sources),
            sources[-1].end_offset,
            offset_index,
            time_index,
            tuple(transactions.rows),
            batches.markers_dropped,
        )
        bytes_read += sum(source.size for source in sources)
        bytes_kept += indexes.position
    yield CleanerStats(
        end_offset, bytes_read, bytes_kept, batches.records_read, batches.records_kept
    )


def _new_map(job: CleaningJob) -> OffsetMap:
    """Return an empty map with room for one key per offset of the dirty part. The map is never
    larger than `dedupe_buffer_bytes`."""
    limits = job.limits
    dirty = job.end_offset - job.first_dirty_offset
    needed = int(dirty / limits.load_factor) + 2
    return OffsetMap(min(limits.dedupe_buffer_bytes // SLOT_BYTES, needed), limits.load_factor)


class _Steps:
    """Counts bytes and records until the next pause."""

    __slots__ = ("_limits", "_records", "size")

    def __init__(self, limits: CleaningLimits) -> None:
        self._limits = limits
        self.size = 0
        self._records = 0

    def is_due(self, header: BatchHeader) -> bool:
        self.size += header.size
        self._records += header.records_count
        limits = self._limits
        return self.size >= limits.step_bytes or self._records >= limits.step_records

    def taken(self) -> Progress:
        progress = Progress(self.size)
        self.size = self._records = 0
        return progress


def _index(job: CleaningJob, files: Files, offsets: OffsetMap) -> Iterator[CleaningEvent]:
    """Read the dirty part into the map, until the map is full. The map then has all keys of the
    dirty part up to `latest_offset`."""
    first = job.first_dirty_offset
    transactions = CleanedTransactions(job.aborted)
    max_bytes = job.limits.decompressed_bytes
    steps = _Steps(job.limits)
    for source in job.sources:
        if source.end_offset <= first:
            continue
        scan = _scan(files, source, job)
        for position, header in scan:
            if steps.is_due(header):
                yield steps.taken()
            batch = scan.batch()
            try:
                if header.is_control:
                    records = read_records(batch, max_bytes=max_bytes, check_crc=False)
                    transactions.ends_nothing(header, records)
                elif not transactions.is_aborted(header) and header.last_offset >= first:
                    for record in read_records(batch, max_bytes=max_bytes, check_crc=False):
                        if record.key is not None and record.offset >= first:
                            if offsets.is_full:
                                return
                            offsets.put(record.key, record.offset)
            except CorruptRecords as error:
                raise CorruptLog(source.path, position, error.reason) from error
            if header.last_offset >= first:
                offsets.latest_offset = header.last_offset
        _raise_if_corrupt(scan)
        offsets.latest_offset = source.end_offset - 1


def _rewrite(
    sources: Sequence[Source],
    job: CleaningJob,
    files: Files,
    batches: BatchFilter,
    indexes: Indexes,
) -> Iterator[CleaningEvent]:
    """Yield the chunks of the segment that replaces `sources`."""
    parts: list[bytes | bytearray] = []
    size = 0
    steps = _Steps(job.limits)
    for source in sources:
        scan = _scan(files, source, job)
        for position, header in scan:
            if steps.is_due(header):
                yield steps.taken()
            batch = scan.batch()
            try:
                kept = batches.keep(header, batch)
            except CorruptRecords as error:
                raise CorruptLog(source.path, position, error.reason) from error
            if kept is None:
                continue
            parts.append(kept)
            size += len(kept)
            steps.size += len(kept)
            indexes.note(header if kept is batch else read_header(kept), len(kept))
            if size >= job.limits.io_buffer_bytes:
                yield Chunk(sources[0].base_offset, b"".join(parts))
                parts, size = [], 0
        _raise_if_corrupt(scan)
    if parts:
        yield Chunk(sources[0].base_offset, b"".join(parts))


def _scan(files: Files, source: Source, job: CleaningJob) -> Scan:
    """Return a walk over the batches that checks each CRC, so that no damaged batch is rewritten
    with a valid CRC."""
    return Scan(
        files.open(source.path),
        next_offset=source.base_offset,
        check_crc=True,
        chunk_size=job.limits.io_buffer_bytes,
    )


def _raise_if_corrupt(scan: Scan) -> None:
    if scan.problem is not None:
        raise CorruptLog(scan.file.path, scan.position, scan.problem)
