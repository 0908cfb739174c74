"""Putting a cleaned segment in the place of those it was made from, so that a crash anywhere leaves
the old ones or the new one (UnifiedLog.replaceSegments; undone or finished by `log/leftovers.py`).

What a pass gives out is written under names that end in `.cleaned`, made durable, renamed to
`.swap`: from there on it counts. Then the old files go, and the new ones take their names. Never is
there a `.cleaned` of a smaller offset than a `.swap`: its swap would be taken for half done.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from oncelog_server.log.cleaner.job import Chunk, Cleaned
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.segment import Segment
from oncelog_server.log.txn_index import encode_row
from oncelog_server.log.whole_files import write_whole
from oncelog_server.storage.files import File, StorageError
from oncelog_server.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)


class SegmentsGone(Exception):
    """Segments that were to be replaced are not in the log any more: retention was faster."""


class Replacement:
    """The segments that one pass over `log` writes, one after the other."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._growing: tuple[int, File] | None = None

    def write(self, chunk: Chunk) -> None:
        """Raises StorageError."""
        self._file(chunk.base_offset).append(chunk.data)

    def finish(self, cleaned: Cleaned, done: Callable[[StorageError | None], None]) -> None:
        """Write the indexes of the segment and make it durable; then it may be swapped in. Raises
        StorageError."""
        files, base_offset = self._log.files, cleaned.base_offsets[0]
        written = [self._file(base_offset)]
        for suffix, data in (
            (OFFSET_INDEX_SUFFIX, cleaned.offset_index),
            (TIME_INDEX_SUFFIX, cleaned.time_index),
            (TXN_INDEX_SUFFIX, b"".join(map(encode_row, cleaned.aborted))),
        ):
            if data or suffix != TXN_INDEX_SUFFIX:
                path = self._path(base_offset, suffix, CLEANED_SUFFIX)
                write_whole(files, path, data)
                written.append(files.open(path))
        files.sync(written, done)

    def swap(self, cleaned: Cleaned, now_ms: int) -> None:
        """Put the segment that `finish` made durable in place of the old ones. Raises SegmentsGone,
        and StorageError: nothing has changed then, or the log has failed."""
        log = self._log
        first = self._find(cleaned)
        sources = log.segments[first : first + len(cleaned.base_offsets)]
        self._growing = None
        self._forget(cleaned)
        base_offset = cleaned.base_offsets[0]
        suffixes = [
            suffix
            for suffix in SEGMENT_SUFFIXES
            if log.files.exists(self._path(base_offset, suffix, CLEANED_SUFFIX))
        ]
        # The log first, as a swap without its log must never be finished.
        for suffix in suffixes:
            self._rename(base_offset, suffix, CLEANED_SUFFIX, SWAP_SUFFIX)
        try:
            self._exchange(sources, suffixes, now_ms)
        except StorageError as error:
            log.failure = log.failure or error
            raise
        self._take_over(first, sources, cleaned)

    def abandon(self) -> None:
        """The pass ends early: what it has written is given a name that stands for nothing, as the
        next one may begin before it is unlinked."""
        if self._growing is None:
            return
        base_offset, file = self._growing
        self._growing = None
        file.close()
        gone = []
        for suffix in SEGMENT_SUFFIXES:
            path = self._path(base_offset, suffix, CLEANED_SUFFIX)
            if self._log.files.exists(path):
                with suppress(StorageError):
                    self._log.files.rename(path, path + DELETED_SUFFIX)
                    gone.append(path + DELETED_SUFFIX)
        self._log.files.remove(gone)

    def _file(self, base_offset: int) -> File:
        if self._growing is None or self._growing[0] != base_offset:
            path = self._path(base_offset, LOG_SUFFIX, CLEANED_SUFFIX)
            file = self._log.files.open(path, create=True)
            if file.size:
                file.truncate(0)
            self._growing = (base_offset, file)
        return self._growing[1]

    def _find(self, cleaned: Cleaned) -> int:
        """Where in the log the old segments are. Raises SegmentsGone."""
        log = self._log
        bases = [segment.base_offset for segment in log.segments]
        wanted = list(cleaned.base_offsets)
        with suppress(ValueError):
            first = bases.index(wanted[0])
            if bases[first : first + len(wanted)] == wanted and wanted[-1] != bases[-1]:
                return first
        raise SegmentsGone

    def _forget(self, cleaned: Cleaned) -> None:
        """What a start would believe of the old segments, and what is wrong about the new one, goes
        first: it is computed again where a crash comes in between."""
        log = self._log
        for base_offset in cleaned.base_offsets:
            log.aborted.distrust(base_offset)
        self._checkpoint_aborted()
        if cleaned.markers_dropped:
            # Snapshots from before a marker know its transaction as open, and nothing ends it now.
            stale = [one for one in log.snapshots.offsets if one < cleaned.end_offset]
        else:
            stale = [one for one in log.snapshots.offsets if one in cleaned.base_offsets[1:]]
        log.snapshots.remove(stale)

    def _exchange(self, sources: list[Segment], suffixes: list[str], now_ms: int) -> None:
        log = self._log
        due_ms = now_ms + log.config.file_delete_delay_ms
        for segment in sources:
            log.deleted.append((due_ms, segment.mark_deleted()))
        for suffix in suffixes:
            self._rename(sources[0].base_offset, suffix, SWAP_SUFFIX, "")

    def _take_over(self, first: int, sources: list[Segment], cleaned: Cleaned) -> None:
        log, base_offset = self._log, cleaned.base_offsets[0]
        new = Segment(
            log.files,
            log.directory,
            base_offset,
            log.files.open(self._path(base_offset, LOG_SUFFIX)),
            created_ms=sources[-1].created_ms,
        )
        new.end_offset = cleaned.end_offset
        log.segments[first : first + len(sources)] = [new]
        log.closed_bytes += new.size - sum(segment.size for segment in sources)
        gone = {segment.log.path for segment in sources}
        gone |= {segment.path(suffix) for segment in sources for suffix in SEGMENT_SUFFIXES}
        log.unsynced = [file for file in log.unsynced if file.path not in gone]
        for segment in sources:
            log.reader.forget(segment)
        log.aborted.replace(base_offset, cleaned.aborted)
        self._checkpoint_aborted()

    def _checkpoint_aborted(self) -> None:
        log = self._log
        with suppress(StorageError):  # then the next start computes them again
            log.aborted.checkpoint(segment.base_offset for segment in log.segments)

    def _rename(self, base_offset: int, suffix: str, old: str, new: str) -> None:
        self._log.files.rename(
            self._path(base_offset, suffix, old), self._path(base_offset, suffix, new)
        )

    def _path(self, base_offset: int, suffix: str, state: str = "") -> str:
        return f"{self._log.directory}/{segment_file(base_offset, suffix, state)}"
