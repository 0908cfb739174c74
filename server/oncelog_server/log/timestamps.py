"""Find records by their time (ListOffsets; UnifiedLog.fetchOffsetByTimestamp, KIP-734)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Record
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.results import NO_TIMESTAMP, TimestampOffset
from oncelog_server.log.scan import Scan
from oncelog_server.log.segment import Segment
from oncelog_server.log.validation import decompressed_limit

if TYPE_CHECKING:
    from oncelog_server.log.log import PartitionLog


def offset_for_timestamp(log: PartitionLog, timestamp: int, limit: int) -> TimestampOffset | None:
    """The first record at or after `timestamp` with an offset in log start..`limit` (exclusive)."""
    for segment in log.segments:
        if segment.end_offset <= log.log_start_offset or segment.base_offset >= limit:
            continue
        if segment.latest_timestamp()[0] < timestamp:
            continue
        found = _in_segment(log, segment, timestamp)
        if found is not None:
            return found if found.offset < limit else None
    return None


def _in_segment(log: PartitionLog, segment: Segment, timestamp: int) -> TimestampOffset | None:
    log.reader.keep_indexes(segment)
    entry = segment.time_index().floor(timestamp)
    start = segment.base_offset if entry is None else segment.base_offset + entry[1]
    start = max(start, log.log_start_offset)
    scan = segment.walk_from(start)
    for _, header in scan:
        if header.last_offset < start or header.max_timestamp < timestamp:
            continue
        for record in _records(log, scan, header):
            if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                return TimestampOffset(
                    record.timestamp, record.offset, header.partition_leader_epoch
                )
    _raise_if_corrupt(scan)
    return None


def max_timestamp_offset(log: PartitionLog) -> TimestampOffset | None:
    """The first record that has the latest timestamp of the log; None if no record has one."""
    newest: tuple[int, int] = (NO_TIMESTAMP, 0)
    where: Segment | None = None
    for segment in log.segments:
        latest = segment.latest_timestamp()
        if latest[0] > newest[0]:
            newest, where = latest, segment
    if where is None:
        return None
    timestamp, last_offset = newest
    log.reader.keep_indexes(where)
    scan = where.walk_from(last_offset)
    for _, header in scan:
        if header.last_offset >= last_offset:
            for record in _records(log, scan, header):
                if record.timestamp == timestamp:
                    epoch = header.partition_leader_epoch
                    return TimestampOffset(timestamp, record.offset, epoch)
            return TimestampOffset(timestamp, header.base_offset, header.partition_leader_epoch)
    _raise_if_corrupt(scan)
    return None


def _records(log: PartitionLog, scan: Scan, header: BatchHeader) -> list[Record]:
    """Return the batch's records. A batch whose content cannot be read counts as one record with
    its latest timestamp: a reader that gets there meets the error."""
    try:
        return read_records(scan.batch(), max_bytes=decompressed_limit(log.config), check_crc=False)
    except CorruptRecords:
        return [Record(header.base_offset, header.max_timestamp, None, None)]


def _raise_if_corrupt(scan: Scan) -> None:
    if scan.problem is not None:
        raise CorruptLog(scan.file.path, scan.position, scan.problem)
