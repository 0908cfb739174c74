"""Finds the position of an offset in the files of a log. The search bisects the segments, looks
into the index of one segment, and then walks over a few headers."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.producers import Producers
from oncelog_server.log.results import FileRange, LogRead
from oncelog_server.log.scan import WALK_CHUNK, Scan
from oncelog_server.log.segment import UNKNOWN_SIZE, Segment
from oncelog_server.log.segments import LogSegments

_NOTHING: Final = LogRead(None)


class LogReader:
    """Reads one log. `producers` has the positions of the first batches of open transactions."""

    __slots__ = ("_limit_position", "_producers", "_segments")

    def __init__(self, segments: LogSegments, producers: Producers) -> None:
        self._segments = segments
        self._producers = producers
        # The limit (an offset) of an earlier read and its position. Most reads have the same limit.
        self._limit_position = (-1, 0)

    def read(self, offset: int, max_bytes: int, limit: int, at_least_one: bool) -> LogRead:
        """Read as PartitionLog.read does. `offset` must be in the log."""
        if offset >= limit or (max_bytes <= 0 and not at_least_one):
            return _NOTHING
        located = self._locate(offset)
        if located is None:
            return _NOTHING
        segment, position, batch_size = located
        end, end_offset = segment.log.size, segment.end_offset
        if limit < end_offset:
            end, end_offset = self._position_of_limit(segment, limit), limit
        length = end - position
        if length > max_bytes:
            length = max_bytes
            if batch_size == UNKNOWN_SIZE:
                batch_size = read_header(segment.log.read(position, HEADER_SIZE)).size
            if batch_size > max_bytes:
                length = batch_size if at_least_one else 0
            end_offset = min(end_offset, segment.offset_at_or_after(position + length))
        if length <= 0:
            return _NOTHING
        return LogRead(FileRange(segment.log, position, length), end_offset)

    def _locate(self, offset: int) -> tuple[Segment, int, int] | None:
        """Return segment, position and size of the batch with `offset`. If no batch has `offset`,
        return those of the next batch, or None if there is no next batch either. The size may be
        UNKNOWN_SIZE, as in Segment.locate."""
        segments = self._segments
        active = segments.active
        if offset >= active.base_offset:
            located = active.locate(offset)
            return None if located is None else (active, *located)
        for segment in segments.from_offset(offset):
            segments.keep_indexes(segment)
            located = segment.locate(offset)
            if located is not None:
                return segment, *located
        return None

    def cold_range(self, offset: int) -> FileRange | None:
        """Return bytes that a read at `offset` needs to find its position, and that are only on the
        disk. Return None if there are none. Raises StorageError and CorruptLog."""
        segments = self._segments
        active = segments.active
        segment = active if offset >= active.base_offset else segments.from_offset(offset)[0]
        segments.keep_indexes(segment)
        return segment.cold_range(offset)

    def headers_from(self, offset: int, end_offset: int, most: int) -> list[BatchHeader]:
        """Return headers of at most `most` batches of one segment. The first batch is the one with
        `offset`, or the next batch if no batch has `offset`. All batches begin below `end_offset`.
        Raises StorageError and CorruptLog."""
        located = self._locate(offset)
        if located is None:
            return []
        segment, position, _ = located
        scan = Scan(segment.log, position, next_offset=segment.base_offset, chunk_size=WALK_CHUNK)
        headers: list[BatchHeader] = []
        for _, header in scan:
            if header.base_offset >= end_offset:
                break
            headers.append(header)
            if len(headers) >= most:
                break
        if scan.problem is not None:
            raise CorruptLog(segment.log.path, scan.position, scan.problem)
        return headers

    def size_from(self, offset: int) -> int:
        """Return the number of bytes from the batch with `offset` to the end of the log. Raises
        StorageError and CorruptLog."""
        located = self._locate(offset)
        if located is None:
            return 0
        segment, position, _ = located
        later = self._segments.from_offset(segment.base_offset)
        return sum(following.size for following in later) - position

    def forget_limit(self) -> None:
        """Forget the position of the limit after a truncation, because later appends may give the
        limit another position."""
        self._limit_position = (-1, 0)

    def _position_of_limit(self, segment: Segment, limit: int) -> int:
        if limit <= segment.base_offset:
            return 0
        known, position = self._limit_position
        if known != limit:
            transaction = self._producers.ongoing_transaction(limit)
            if transaction is not None and transaction.position >= 0:
                position = transaction.position
            else:
                found = segment.position_of(limit)
                position = segment.size if found is None else found
            self._limit_position = (limit, position)
        return position
