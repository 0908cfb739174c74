"""Finds records by their time (ListOffsets; UnifiedLog.fetchOffsetByTimestamp, KIP-734).

A search may walk over a whole segment, if its records are not in the order of their times, and over
all records of a large batch. So it is done in steps, and the log may change between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeAlias

from oncelog_protocol.records.batch import HEADER_SIZE, BatchHeader
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.times import RecordTime, record_times
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.look_ahead import LookAhead
from oncelog_server.log.results import NO_TIMESTAMP, FileRange, TimestampOffset
from oncelog_server.log.scan import Scan
from oncelog_server.log.segment import Segment
from oncelog_server.log.segments import LogSegments

# Number of batches, and of records, in one step. A step takes less than 1 ms.
STEP_BATCHES: Final = 64
STEP_RECORDS: Final = 256

# A search yields bytes that are only on the disk. If the caller does not wait for their prefetch,
# the search waits for the disk.
Search: TypeAlias = Generator[FileRange | None, None, TimestampOffset | None]


class Timestamps:
    """Looks up records of one log. `max_bytes`: maximum size of a decompressed batch."""

    def __init__(self, segments: LogSegments, log_start_offset: int, max_bytes: int) -> None:
        self._segments = segments
        self._log_start_offset = log_start_offset
        self._max_bytes = max_bytes

    def first_at(self, timestamp: int, limit: int) -> Search:
        """Return the first record at or after `timestamp` (ms) with an offset in log start..`limit`
        (exclusive), or None. Raises StorageError and CorruptLog."""
        for segment in list(self._segments):
            if segment.end_offset <= self._log_start_offset or segment.base_offset >= limit:
                continue
            yield None
            yield from segment.cold_latest()
            if segment.latest_timestamp()[0] < timestamp:
                continue
            found = yield from self._in_segment(segment, timestamp)
            if found is not None:
                return found if found.offset < limit else None
        return None

    def _in_segment(self, segment: Segment, timestamp: int) -> Search:
        self._keep_indexes(segment)
        yield from segment.cold_indexes()
        entry = segment.time_index().floor(timestamp)
        start = segment.base_offset if entry is None else segment.base_offset + entry[1]
        start = max(start, self._log_start_offset)

        def is_wanted(record: RecordTime) -> bool:
            return record.timestamp >= timestamp and record.offset >= self._log_start_offset

        if cold := segment.cold_walk(start):
            yield cold
        scan, ahead = segment.walk_from(start), LookAhead(segment.log)
        for number, (position, header) in enumerate(scan, 1):
            if not number % STEP_BATCHES:
                yield None
            if header.last_offset >= start and header.max_timestamp >= timestamp:
                found = yield from self._in_batch(scan, header, ahead, is_wanted)
                if found is not None:
                    return found
            if cold := ahead.cold(position + header.size, HEADER_SIZE):
                yield cold
        _raise_if_corrupt(scan)
        return None

    def latest(self) -> Search:
        """Return the first record with the latest timestamp of the log, None if no record has a
        timestamp. Raises StorageError and CorruptLog."""
        newest: tuple[int, int] = (NO_TIMESTAMP, 0)
        where: Segment | None = None
        for segment in list(self._segments):
            yield from segment.cold_latest()
            latest = segment.latest_timestamp()
            if latest[0] > newest[0]:
                newest, where = latest, segment
            yield None
        if where is None:
            return None
        timestamp, last_offset = newest
        self._keep_indexes(where)
        if cold := where.cold_walk(last_offset):
            yield cold
        scan, ahead = where.walk_from(last_offset), LookAhead(where.log)
        for _, header in scan:
            if header.last_offset >= last_offset:
                found = yield from self._in_batch(
                    scan, header, ahead, lambda record: record.timestamp == timestamp
                )
                epoch = header.partition_leader_epoch
                return found or TimestampOffset(timestamp, header.base_offset, epoch)
        _raise_if_corrupt(scan)
        return None

    def _keep_indexes(self, segment: Segment) -> None:
        """Keep the segment's indexes in memory, unless retention or cleaning has removed it from
        the log since the last step."""
        if self._segments.from_offset(segment.base_offset)[0] is segment:
            self._segments.keep_indexes(segment)

    def _in_batch(
        self,
        scan: Scan,
        header: BatchHeader,
        ahead: LookAhead,
        is_wanted: Callable[[RecordTime], bool],
    ) -> Search:
        """Return the first wanted record of the batch that the scan has yielded last."""
        if cold := ahead.cold(scan.position, header.size):
            yield cold
        for number, record in enumerate(self._times(scan.batch(), header), 1):
            if is_wanted(record):
                epoch = header.partition_leader_epoch
                return TimestampOffset(record.timestamp, record.offset, epoch)
            if not number % STEP_RECORDS:
                yield None
        return None

    def _times(self, batch: bytes, header: BatchHeader) -> Iterator[RecordTime]:
        """Yield the times of the batch's records. A batch that cannot be decoded counts as one
        record with the latest timestamp of the batch. A reader of the batch then gets the error."""
        try:
            yield from record_times(batch, max_bytes=self._max_bytes)
        except CorruptRecords:
            yield RecordTime(header.base_offset, header.max_timestamp)


def _raise_if_corrupt(scan: Scan) -> None:
    if scan.problem is not None:
        raise CorruptLog(scan.file.path, scan.position, scan.problem)
