"""Finds records by their time (ListOffsets; UnifiedLog.fetchOffsetByTimestamp, KIP-734)."""

from __future__ import annotations

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Record
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.results import NO_TIMESTAMP, TimestampOffset
from oncelog_server.log.scan import Scan
from oncelog_server.log.segment import Segment
from oncelog_server.log.segments import LogSegments


class Timestamps:
    """Looks up records of one log. `max_bytes`: maximum size of a decompressed batch."""

    def __init__(self, segments: LogSegments, log_start_offset: int, max_bytes: int) -> None:
        self._segments = segments
        self._log_start_offset = log_start_offset
        self._max_bytes = max_bytes

    def first_at(self, timestamp: int, limit: int) -> TimestampOffset | None:
        """Return the first record at or after `timestamp` (ms) with an offset in log start..`limit`
        (exclusive), or None. Raises StorageError and CorruptLog."""
        for segment in self._segments:
            if segment.end_offset <= self._log_start_offset or segment.base_offset >= limit:
                continue
            if segment.latest_timestamp()[0] < timestamp:
                continue
            found = self._in_segment(segment, timestamp)
            if found is not None:
                return found if found.offset < limit else None
        return None

    def _in_segment(self, segment: Segment, timestamp: int) -> TimestampOffset | None:
        self._segments.keep_indexes(segment)
        entry = segment.time_index().floor(timestamp)
        start = segment.base_offset if entry is None else segment.base_offset + entry[1]
        start = max(start, self._log_start_offset)
        scan = segment.walk_from(start)
        for _, header in scan:
            if header.last_offset < start or header.max_timestamp < timestamp:
                continue
            for record in self._records(scan, header):
                if record.timestamp >= timestamp and record.offset >= self._log_start_offset:
                    return TimestampOffset(
                        record.timestamp, record.offset, header.partition_leader_epoch
                    )
        _raise_if_corrupt(scan)
        return None

    def latest(self) -> TimestampOffset | None:
        """Return the first record with the latest timestamp of the log, None if no record has a
        timestamp. Raises StorageError and CorruptLog."""
        newest: tuple[int, int] = (NO_TIMESTAMP, 0)
        where: Segment | None = None
        for segment in self._segments:
            latest = segment.latest_timestamp()
            if latest[0] > newest[0]:
                newest, where = latest, segment
        if where is None:
            return None
        timestamp, last_offset = newest
        self._segments.keep_indexes(where)
        scan = where.walk_from(last_offset)
        for _, header in scan:
            if header.last_offset >= last_offset:
                epoch = header.partition_leader_epoch
                for record in self._records(scan, header):
                    if record.timestamp == timestamp:
                        return TimestampOffset(timestamp, record.offset, epoch)
                return TimestampOffset(timestamp, header.base_offset, epoch)
        _raise_if_corrupt(scan)
        return None

    def _records(self, scan: Scan, header: BatchHeader) -> list[Record]:
        """Return the batch's records. A batch that cannot be decoded counts as one record with the
        latest timestamp of the batch. A reader of the batch then gets the error."""
        try:
            return read_records(scan.batch(), max_bytes=self._max_bytes, check_crc=False)
        except CorruptRecords:
            return [Record(header.base_offset, header.max_timestamp, None, None)]


def _raise_if_corrupt(scan: Scan) -> None:
    if scan.problem is not None:
        raise CorruptLog(scan.file.path, scan.position, scan.problem)
