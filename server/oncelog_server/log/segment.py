"""One segment: a `.log` file with its indexes (Kafka's LogSegment).

The active segment keeps its indexes in memory, and writes the index files when it is rolled or
closed. Older segments load their indexes when needed. An index entry is used only if the log has a
batch with the entry's offset at the entry's position. So a missing or damaged index causes no wrong
read, but only a longer walk over the headers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from oncelog_protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from oncelog_server.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from oncelog_server.log.results import FileRange
from oncelog_server.log.scan import WALK_CHUNK, Scan
from oncelog_server.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from oncelog_server.log.time_index import TimeIndex
from oncelog_server.log.whole_files import read_whole, write_whole
from oncelog_server.storage.files import File, Files, StorageError
from oncelog_server.storage.layout import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    segment_file,
)

NO_TIMESTAMP: Final = -1
UNKNOWN_SIZE: Final = -1
# The bytes behind an index entry that have the header of any batch up to the next entry, unless the
# batches are large.
_NEAR_BYTES: Final = 64 << 10
# The value of `_index_bytes` after a change of an index, larger than any limit.
_UNMEASURED: Final = 1 << 62
_REBUILT: Final = ("_entry_position", "_index_bytes", "_offset_index", "_time_index", "end_offset",
                   "first_timestamp", "max_timestamp",
                   "max_timestamp_offset")  # fmt: skip


class Segment:
    """A segment with the offsets `base_offset`..`end_offset` (exclusive). An append moves the
    `end_offset` of the active segment. At a start, recovery sets the `end_offset` of the other
    segments."""

    __slots__ = ("_directory", "_entry_position", "_files", "_index_bytes", "_marked",
                 "_offset_index", "_recent_offsets", "_recent_positions", "_time_index",
                 "base_offset", "created_ms", "end_offset", "first_timestamp", "jitter_ms", "log",
                 "max_timestamp", "max_timestamp_offset")  # fmt: skip

    def __init__(
        self, files: Files, directory: str, base_offset: int, log: File, *,
        created_ms: int, jitter_ms: int = 0,
    ) -> None:  # fmt: skip
        self._files = files
        self._directory = directory
        self.base_offset = base_offset
        self.log = log
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.end_offset = base_offset
        # The latest timestamp of the first batch, from which `segment.ms` counts, and the latest
        # timestamp of all batches. Each is None until it is read.
        self.first_timestamp: int | None = None
        self.max_timestamp: int | None = None
        self.max_timestamp_offset = (
            base_offset  # last offset of the batch with the latest timestamp
        )
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        # The result of `_measure_indexes`, or _UNMEASURED if an index has changed since.
        self._index_bytes = _UNMEASURED
        # The position of the batch with the last index entry, 0 without an entry.
        self._entry_position = 0
        # The batches since the last index entry. With these lists, a read of these batches needs no
        # walk over the headers.
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []
        # The paths that `mark_deleted` has renamed.
        self._marked: list[str] = []

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, *, now_ms: int, jitter_ms: int
    ) -> Segment:
        """Return a new, empty segment. If a crash has left a file of this name, the file is
        emptied."""
        log = files.open(f"{directory}/{segment_file(base_offset, LOG_SUFFIX)}", create=True)
        if log.size:
            log.truncate(0)
        segment = cls(files, directory, base_offset, log, created_ms=now_ms, jitter_ms=jitter_ms)
        segment.start_indexes()
        return segment

    @property
    def size(self) -> int:
        return self.log.size

    def path(self, suffix: str, state: str = "") -> str:
        return f"{self._directory}/{segment_file(self.base_offset, suffix, state)}"

    def start_indexes(self) -> None:
        """Start with empty indexes in memory. The segment is empty, or recovery is about to scan
        it."""
        self._offset_index = OffsetIndex()
        self._time_index = TimeIndex()
        self._index_bytes = _UNMEASURED
        self.first_timestamp = None
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.end_offset = self.base_offset
        self._entry_position = 0
        self._recent_offsets.clear()
        self._recent_positions.clear()

    # Writing.

    def should_roll(
        self, size: int, max_timestamp: int, last_offset: int, now_ms: int, config: LogConfig
    ) -> bool:
        """Return True if a batch of `size` bytes must be appended to a new segment
        (LogSegment.shouldRoll). The age of the segment comes from the records' timestamps. Without
        timestamps, the age comes from the broker's time."""
        filled = self.log.size
        if (
            filled + size > config.segment_bytes
            or (
                self._index_bytes > config.segment_index_bytes
                and self._measure_indexes() > config.segment_index_bytes
            )
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        ):
            return True
        first = self.first_timestamp
        if first is None or first < 0:
            max_timestamp, first = now_ms, self.created_ms
        return max_timestamp - first > config.segment_ms - self.jitter_ms and filled > 0

    def _measure_indexes(self) -> int:
        """Return the size in bytes of the larger index with one more entry. The time index also
        needs room for a last entry with the latest timestamp."""
        assert self._offset_index is not None
        assert self._time_index is not None
        self._index_bytes = max(
            (len(self._offset_index) + 1) * OFFSET_ENTRY_SIZE,
            (len(self._time_index) + 2) * TIME_ENTRY_SIZE,
        )
        return self._index_bytes

    def note(
        self, position: int, base_offset: int, last_offset: int, max_timestamp: int, interval: int
    ) -> None:
        """Note the new last batch of the segment, at `position`. The batch gets an index entry if
        it begins more than `interval` bytes (`index.interval.bytes`) after the batch of the last
        entry."""
        if not position:
            self.first_timestamp = max_timestamp
        if self.max_timestamp is None or max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self._entry_position > interval:
            assert self._offset_index is not None
            assert self._time_index is not None
            self._offset_index.append(last_offset - self.base_offset, position)
            self._time_index.append_if_later(
                self.max_timestamp, self.max_timestamp_offset - self.base_offset
            )
            self._index_bytes = _UNMEASURED
            self._entry_position = position
            self._recent_offsets.clear()
            self._recent_positions.clear()
        self._recent_offsets.append(base_offset)
        self._recent_positions.append(position)
        self.end_offset = last_offset + 1

    def write_indexes(self, *, may_be_left_out: bool = False) -> None:
        """Write the index files. The last entry has the latest timestamp, as in Kafka at a roll or
        close. `may_be_left_out`: if the offset index has no entry, only index files that already
        exist are written. A start can read the few headers of the log instead. Raises
        StorageError."""
        if self._offset_index is None or self._time_index is None:
            return
        self._note_latest_timestamp()
        may_be_left_out = may_be_left_out and not len(self._offset_index)
        for suffix, data in (
            (OFFSET_INDEX_SUFFIX, self._offset_index.encode()),
            (TIME_INDEX_SUFFIX, self._time_index.encode()),
        ):
            path = self.path(suffix)
            if not may_be_left_out or self._files.exists(path):
                write_whole(self._files, path, data)

    def _note_latest_timestamp(self) -> None:
        assert self._time_index is not None
        self._index_bytes = _UNMEASURED
        if self.max_timestamp is not None:
            self._time_index.append_if_later(
                self.max_timestamp, self.max_timestamp_offset - self.base_offset
            )

    def forget_indexes(self) -> None:
        """Free the memory of the indexes. The index files have the same entries. The active segment
        must keep its indexes."""
        self._offset_index = self._time_index = None
        self._recent_offsets.clear()
        self._recent_positions.clear()

    def resume(self) -> None:
        """Load the end offset and the indexes of a segment that was closed cleanly. Raises
        CorruptLog if the file does not consist of batches."""
        if not self.log.size:
            self.start_indexes()
            return
        last = self.offset_index(is_last=True).last()
        if last is not None and not self._confirms(*last):
            self.rebuild_indexes()
            return
        position = last[1] if last is not None else 0
        scan = Scan(self.log, position, next_offset=self.base_offset)
        latest, latest_offset = NO_TIMESTAMP, self.base_offset
        for position, header in scan:
            if not position:
                self.first_timestamp = header.max_timestamp
            if header.max_timestamp > latest:
                latest, latest_offset = header.max_timestamp, header.last_offset
            self._recent_offsets.append(header.base_offset)
            self._recent_positions.append(position)
        self.end_offset = max(scan.next_offset, self.base_offset)
        self._raise_if_corrupt(scan)
        self._entry_position = last[1] if last is not None else 0
        if last is None:
            # Every header was read, so the file of the time index adds nothing.
            self._time_index = TimeIndex()
            self._index_bytes = _UNMEASURED
            self.max_timestamp, self.max_timestamp_offset = latest, latest_offset
        else:
            self.latest_timestamp()
        if self.first_timestamp is None:
            for _, header in Scan(self.log, chunk_size=WALK_CHUNK):
                self.first_timestamp = header.max_timestamp
                break

    # Reading.

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return (position, size in bytes) of the batch with `offset`. If no batch has `offset`,
        return the next batch. Return None if there is no next batch either. The size is
        UNKNOWN_SIZE for the first batch if `offset` is at or below `base_offset`.

        Raises StorageError. Raises CorruptLog if the file does not consist of batches.
        """
        size = self.log.size
        if offset >= self.end_offset or not size:  # compaction may remove all batches
            return None
        if offset <= self.base_offset:
            return 0, UNKNOWN_SIZE
        recent, positions = self._recent_offsets, self._recent_positions
        if recent and offset >= recent[0]:
            following = bisect_right(recent, offset)
            position = positions[following - 1]
            end = positions[following] if following < len(positions) else size
            return position, end - position
        scan = self.walk_from(offset)
        for position, header in scan:
            if header.last_offset >= offset:
                return position, header.size
        self._raise_if_corrupt(scan)
        return None

    def cold_range(self, offset: int) -> FileRange | None:
        """Return bytes that `locate` would read from the disk, and not from the page cache. Return
        None if there are none. They belong to the index as long as it is not in memory. Raises
        StorageError."""
        recent = self._recent_offsets
        if offset >= self.end_offset or (recent and offset >= recent[0]):
            return None
        return self.cold_walk(offset)

    def cold_walk(self, offset: int) -> FileRange | None:
        """Return bytes that the first read after `walk_from(offset)` would wait for: of the index
        or, once that is in memory, of the log. Raises StorageError and CorruptLog."""
        if self._offset_index is None and (index := self._cold_file(OFFSET_INDEX_SUFFIX)):
            return index
        entry = self.offset_index().floor(offset - self.base_offset)
        position = 0 if entry is None else entry[1]
        near = FileRange(self.log, position, min(self.log.size - position, _NEAR_BYTES))
        return None if not near.length or near.is_cached() else near

    def cold_indexes(self) -> Iterator[FileRange]:
        """Yield the index files that are neither in memory nor in the page cache."""
        for suffix, index in (
            (OFFSET_INDEX_SUFFIX, self._offset_index),
            (TIME_INDEX_SUFFIX, self._time_index),
        ):
            if index is None and (file := self._cold_file(suffix)):
                yield file

    def cold_latest(self) -> Iterator[FileRange]:
        """Yield the bytes on the disk that `latest_timestamp` usually reads: the index files, and
        the end of the log, which confirms the last entry. The indexes are not loaded. Raises
        StorageError."""
        if self.max_timestamp is None and self.log.size:
            yield from self.cold_indexes()
            length = min(self.log.size, _NEAR_BYTES)
            end = FileRange(self.log, self.log.size - length, length)
            if not end.is_cached():
                yield end

    def _cold_file(self, suffix: str) -> FileRange | None:
        # The file is missing if the index has no entries.
        with suppress(StorageError):
            file = self._files.open(self.path(suffix))
            whole = FileRange(file, 0, file.size)
            is_cached = not file.size or whole.is_cached()
            file.close()
            return None if is_cached else whole
        return None

    def position_of(self, offset: int) -> int | None:
        """Return the position that `locate` finds. Raises the errors of `locate`."""
        located = self.locate(offset)
        return None if located is None else located[0]

    def walk_from(self, offset: int, chunk_size: int = WALK_CHUNK) -> Scan:
        """Return a scan over the headers. The scan begins at `offset` or shortly before."""
        entry = self.offset_index().floor(offset - self.base_offset)
        if entry is not None:
            scan = self._scan_at(entry[1], chunk_size)
            if scan.begins_with(self.base_offset + entry[0]):
                return scan
            self.rebuild_indexes()
            entry = self.offset_index().floor(offset - self.base_offset)
        return self._scan_at(0 if entry is None else entry[1], chunk_size)

    def _scan_at(self, position: int, chunk_size: int) -> Scan:
        return Scan(self.log, position, next_offset=self.base_offset, chunk_size=chunk_size)

    def offset_at_or_after(self, position: int) -> int:
        """Return an offset above all offsets in the first `position` bytes. The offset is as small
        as the index allows."""
        relative_offset = self.offset_index().ceiling(position)
        return self.end_offset if relative_offset is None else self.base_offset + relative_offset

    def _confirms(self, relative_offset: int, position: int) -> bool:
        """Return True if there is a batch at `position` that ends with this offset."""
        scan = self._scan_at(position, WALK_CHUNK)
        return scan.begins_with(self.base_offset + relative_offset)

    def position_near(self, offset: int) -> int:
        """Return the position of a batch at or before `offset`, from the index in memory, or else
        from its file. Return 0 if the file is not valid. The index of the file is neither kept in
        memory nor rebuilt."""
        index = self._offset_index
        if index is None and (data := read_whole(self._files, self.path(OFFSET_INDEX_SUFFIX))):
            index = OffsetIndex.decode(data, max(self.log.size, 1))
        entry = None if index is None else index.floor(offset - self.base_offset)
        return entry[1] if entry is not None and self._confirms(*entry) else 0

    def offset_index(self, *, is_last: bool = False) -> OffsetIndex:
        """Return the index from memory or from its file. If neither has the index, compute it from
        the log. `is_last`: the segment is the log's active segment."""
        if self._offset_index is None:
            data = read_whole(self._files, self.path(OFFSET_INDEX_SUFFIX))
            if data is None and is_last:  # an index without entries has no file
                data = b""
            index = None if data is None else OffsetIndex.decode(data, max(self.log.size, 1))
            if index is None or (not len(index) and self.log.size > WALK_CHUNK):
                self.rebuild_indexes()
            else:
                self._offset_index = index
                self._index_bytes = _UNMEASURED
        assert self._offset_index is not None
        return self._offset_index

    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            data = read_whole(self._files, self.path(TIME_INDEX_SUFFIX))
            last_relative = self.end_offset - 1 - self.base_offset
            index = None if data is None else TimeIndex.decode(data, max(last_relative, 0))
            if index is None or not self._confirms_latest(index):
                self.rebuild_indexes()
            else:
                self._time_index = index
                self._index_bytes = _UNMEASURED
        assert self._time_index is not None
        return self._time_index

    def _confirms_latest(self, index: TimeIndex) -> bool:
        """Return True if the batch of the last entry has the entry's timestamp, and no later batch
        has a greater timestamp."""
        last = index.last()
        timestamp, relative_offset = last or (NO_TIMESTAMP, -1)
        for _, header in self.walk_from(self.base_offset + max(relative_offset, 0)):
            if header.last_offset == self.base_offset + relative_offset:
                if header.max_timestamp != timestamp:
                    return False
            elif header.max_timestamp > timestamp:
                return False
        return True

    @contextmanager
    def borrowed_indexes(self) -> Iterator[None]:
        """If the offset index was not in memory before the `with` block, free the memory of both
        indexes at its end."""
        borrowed = self._offset_index is None
        yield
        if borrowed:
            self.forget_indexes()

    def latest_timestamp(self) -> tuple[int, int]:
        """Return the latest timestamp, and the last offset of its batch. The timestamp is
        NO_TIMESTAMP if no record has a timestamp."""
        if self.max_timestamp is None:
            with self.borrowed_indexes():
                timestamp, relative_offset = self.time_index().last() or (NO_TIMESTAMP, 0)
            self.max_timestamp = timestamp
            self.max_timestamp_offset = self.base_offset + relative_offset
        return self.max_timestamp, self.max_timestamp_offset

    def first_batch_timestamp(self) -> int:
        """Return the latest timestamp of the first batch. Raises StorageError."""
        if self.first_timestamp is None:
            self.first_timestamp = read_header(self.log.read(0, HEADER_SIZE)).max_timestamp
        return self.first_timestamp

    def rebuild_indexes(self) -> None:
        """Compute both indexes from the headers of the log. Raises CorruptLog and StorageError.
        After an error the previous indexes stay, so that readers do not take the segment for
        empty."""
        before = {name: getattr(self, name) for name in _REBUILT}
        self.start_indexes()
        try:
            scan = Scan(self.log, next_offset=self.base_offset)
            for position, header in scan:
                self.note_header(position, header)
            self._raise_if_corrupt(scan)
        except (CorruptLog, StorageError):
            for name, value in before.items():
                setattr(self, name, value)
            raise
        self._note_latest_timestamp()
        self.end_offset = max(before["end_offset"], self.end_offset)
        # The lists of recent batches do not show the gaps that compaction has left.
        self._recent_offsets.clear()
        self._recent_positions.clear()
        with suppress(StorageError):  # a later start rebuilds the files
            self.write_indexes(may_be_left_out=True)

    def truncate(self, position: int, interval: int) -> None:
        """Keep the first `position` bytes. The segment is or becomes the active segment, with its
        indexes in memory (LogSegment.truncateTo). Only the batches after the last index entry that
        stays are read. Raises StorageError and CorruptLog."""
        self.offset_index()
        self.time_index()  # before the cut, because an index is checked against the whole file
        if position < self.size:
            self.log.truncate(position)
        if not position:
            self.start_indexes()
            return
        offsets, times = self._offset_index, self._time_index
        assert offsets is not None
        assert times is not None
        offsets.truncate_from(position)
        relative_offset, self._entry_position = offsets.last() or (-1, 0)
        # A later entry has the timestamp of a batch that the walk reads.
        times.truncate_after(relative_offset)
        self._index_bytes = _UNMEASURED
        self._recent_offsets.clear()
        self._recent_positions.clear()
        self.max_timestamp, latest = times.last() or (NO_TIMESTAMP, 0)
        self.max_timestamp_offset = self.base_offset + latest
        scan = self._scan_at(self._entry_position, WALK_CHUNK)
        for start, header in scan:
            self.note_header(start, header, interval)
        self._raise_if_corrupt(scan)
        self.first_batch_timestamp()

    def note_header(self, position: int, header: BatchHeader, interval: int = 4096) -> None:
        self.note(position, header.base_offset, header.last_offset, header.max_timestamp, interval)

    def _raise_if_corrupt(self, scan: Scan) -> None:
        if scan.problem is not None:
            raise CorruptLog(self.log.path, scan.position, scan.problem)

    # The end.

    def files(self) -> list[File]:
        """Return all files that must be durable before the next start may trust this segment."""
        others = [self.path(suffix) for suffix in SEGMENT_SUFFIXES if suffix != LOG_SUFFIX]
        return [self.log, *(self._files.open(path) for path in others if self._files.exists(path))]

    def close(self) -> None:
        self.log.close()

    def mark_deleted(self) -> list[str]:
        """Rename the files so that the next start removes them. Return the new paths. The caller
        unlinks these files.

        The log file is renamed first. A crash may then leave indexes without a log, and a start
        removes these indexes. In any other order, a crash might leave a log without its txnindex,
        and a start would trust this log. Raises StorageError. After the error the names are
        unchanged, or the disk has refused to restore them and the log file is open under its new
        name. The next call completes the renames, or `unmark_deleted` undoes them.
        """
        self.log.close()
        try:
            for suffix in SEGMENT_SUFFIXES:
                target = self.path(suffix, DELETED_SUFFIX)
                if self._files.exists(self.path(suffix)):
                    self._files.rename(self.path(suffix), target)
                    if target not in self._marked:
                        self._marked.append(target)
        except StorageError:
            with suppress(StorageError):
                self.unmark_deleted()
            raise
        # A response that is still sent from this file must not open a new file with the old name.
        self.log.renamed(self.path(LOG_SUFFIX, DELETED_SUFFIX))
        return list(self._marked)

    def unmark_deleted(self) -> None:
        """Undo the renames of `mark_deleted` in reverse order. The log file comes last. Raises
        StorageError. The log file then stays open under its current name, and the caller may repeat
        the call."""
        if not self._marked:
            return
        self.log.renamed(self.path(LOG_SUFFIX, DELETED_SUFFIX))
        while self._marked:
            path = self._marked[-1]
            self._files.rename(path, path.removesuffix(DELETED_SUFFIX))
            self._marked.pop()
        self.log.renamed(self.path(LOG_SUFFIX))
