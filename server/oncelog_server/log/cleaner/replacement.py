"""Putting a cleaned segment in the place of those it was made from, so that a crash anywhere leaves
the old ones or the new one (UnifiedLog.replaceSegments; undone or finished by `log/leftovers.py`).

What a pass gives out is written under names that end in `.cleaned`, made durable, renamed to
`.swap`: from there on it counts. Then the old files go, and the new ones take their names. Never is
there a `.cleaned` of a smaller offset than a `.swap`: its swap would be taken for half done.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product

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
        self._base_offset = -1
        # Of the segment that is being written: its files by their suffixes.
        self._files: dict[str, File] = {}
        self._is_alone = False
        # A swap is neither done nor taken back: its files are the log's to deal with.
        self._is_half_done = False

    def write(self, chunk: Chunk) -> None:
        """Raises StorageError."""
        self._log_file(chunk.base_offset).append(chunk.data)

    def finish(self, cleaned: Cleaned, done: Callable[[StorageError | None], None]) -> None:
        """Write the indexes and make all of it durable, first the bytes, then that they count; then
        it may be swapped in. `done` is not called after `abandon`. Raises StorageError."""
        base_offset = cleaned.base_offsets[0]
        self._log_file(base_offset)
        for suffix, data in (
            (OFFSET_INDEX_SUFFIX, cleaned.offset_index),
            (TIME_INDEX_SUFFIX, cleaned.time_index),
            (TXN_INDEX_SUFFIX, b"".join(map(encode_row, cleaned.aborted))),
        ):
            if data or suffix != TXN_INDEX_SUFFIX:
                path = self._path(base_offset, suffix, CLEANED_SUFFIX)
                write_whole(self._log.files, path, data)
                self._files[suffix] = self._log.files.open(path)
        files = list(self._files.values())

        def named(error: StorageError | None) -> None:
            if self._base_offset == base_offset:
                done(error)

        def written(error: StorageError | None) -> None:
            if self._base_offset != base_offset:
                return
            try:
                if error is not None:
                    raise error
                self._forget(cleaned)
                for suffix in self._files:
                    self._rename(suffix, CLEANED_SUFFIX, SWAP_SUFFIX)
            except StorageError as refused:
                done(refused)
            else:
                self._log.files.sync(files, named)

        self._log.files.sync(files, written)

    def swap(
        self, cleaned: Cleaned, now_ms: int, done: Callable[[StorageError | None], None]
    ) -> None:
        """Put the segment that is finished in place of the old ones; the next may be written when
        `done` says that the names are durable. Raises SegmentsGone, and StorageError: the old ones
        are in place as before, or, where the disk does not take them back, the log takes nothing
        until it does."""
        log = self._log
        sources = self._find(cleaned)
        due_ms = now_ms + log.config.file_delete_delay_ms
        deleted: list[list[str]] = []
        named: list[str] = []
        try:
            for segment in sources:
                deleted.append(segment.mark_deleted())
            for suffix in self._files:
                self._rename(suffix, SWAP_SUFFIX, "")
                named.append(suffix)
        except StorageError as error:
            self._take_back(sources, named, error)
            raise
        files = list(self._files.values())
        log.segments.replace(
            sources, self._segment(sources, cleaned), cleaned.aborted, deleted, due_ms
        )
        with suppress(StorageError):  # nothing false is in the old one
            log.segments.checkpoint(active=0)
        self._base_offset, self._files = -1, {}
        self._log.files.sync(files, done)

    def abandon(self) -> None:
        """The pass ends early: what it has written is given names that stand for nothing, as the
        next one may begin before it is unlinked. Of a swap that could not be taken back it stays,
        for a start may need it; the next pass clears it away."""
        if self._is_half_done:
            return
        gone = []
        for file in self._files.values():
            file.close()
        # The log is last: a swap is finished at the next start as long as its log is there, and
        # indexes of a swap without its log would be taken for those of the old one.
        for suffix, state in product(reversed(SEGMENT_SUFFIXES), (CLEANED_SUFFIX, SWAP_SUFFIX)):
            path = self._path(self._base_offset, suffix, state)
            if self._files and self._log.files.exists(path):
                with suppress(StorageError):
                    self._log.files.rename(path, path + DELETED_SUFFIX)
                    gone.append(path + DELETED_SUFFIX)
        self._base_offset, self._files = -1, {}
        if gone:
            self._log.files.remove(gone)

    def _take_back(self, sources: list[Segment], named: list[str], error: StorageError) -> None:
        """Undo what was renamed before `error`, the last first: each state on the way is one that
        a swap goes through, which the next start finishes. Where the disk does not take that
        either, the log does it later: nothing else may touch these files until then."""

        def undo() -> None:
            while named:
                self._rename(named[-1], "", SWAP_SUFFIX)
                named.pop()
            for segment in reversed(sources):
                segment.unmark_deleted()

        try:
            undo()
        except StorageError:
            self._is_half_done = True
            self._log.refusals.interrupt(error, undo)

    def _log_file(self, base_offset: int) -> File:
        if self._base_offset != base_offset:
            self._clear()
            path = self._path(base_offset, LOG_SUFFIX, CLEANED_SUFFIX)
            file = self._log.files.open(path, create=True)
            if file.size:
                file.truncate(0)
            # The log is first, as a swap without its log must never be finished.
            self._base_offset, self._files = base_offset, {LOG_SUFFIX: file}
        return self._files[LOG_SUFFIX]

    def _clear(self) -> None:
        """What an earlier pass could not give up goes first: a start would finish its swap, and
        bring back what this pass removes. Raises StorageError."""
        if self._is_alone:
            return
        log = self._log
        names = self._log.files.list(log.directory)
        left = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        for name in sorted(left, key=lambda name: LOG_SUFFIX in name):
            path = f"{log.directory}/{name}"
            self._log.files.rename(path, path + DELETED_SUFFIX)
            self._log.files.remove([path + DELETED_SUFFIX])
        self._is_alone = True

    def _find(self, cleaned: Cleaned) -> list[Segment]:
        """Return the old segments. Raises SegmentsGone."""
        segments = self._log.segments
        bases = [segment.base_offset for segment in segments]
        wanted = list(cleaned.base_offsets)
        with suppress(ValueError):
            first = bases.index(wanted[0])
            if bases[first : first + len(wanted)] == wanted and wanted[-1] != bases[-1]:
                return segments[first : first + len(wanted)]
        raise SegmentsGone

    def _forget(self, cleaned: Cleaned) -> None:
        """What a start would believe of the old segments, and what is wrong about the new one, goes
        first: it is computed again where a crash comes in between. Raises StorageError."""
        log = self._log
        log.segments.checkpoint(active=0, without=cleaned.base_offsets)
        if cleaned.markers_dropped:
            # Snapshots from before a marker know its transaction as open, and nothing ends it now.
            stale = [offset for offset in log.snapshots.offsets if offset < cleaned.end_offset]
        else:
            stale = [
                offset for offset in log.snapshots.offsets if offset in cleaned.base_offsets[1:]
            ]
        log.snapshots.remove(stale)

    def _segment(self, sources: list[Segment], cleaned: Cleaned) -> Segment:
        """Return the segment that takes the place of `sources`."""
        base_offset, file = cleaned.base_offsets[0], self._files[LOG_SUFFIX]
        created_ms = sources[-1].created_ms
        new = Segment(
            self._log.files, self._log.directory, base_offset, file, created_ms=created_ms
        )
        new.end_offset = cleaned.end_offset
        return new

    def _rename(self, suffix: str, old: str, new: str) -> None:
        target = self._path(self._base_offset, suffix, new)
        self._log.files.rename(self._path(self._base_offset, suffix, old), target)
        self._files[suffix].renamed(target)

    def _path(self, base_offset: int, suffix: str, state: str = "") -> str:
        return f"{self._log.directory}/{segment_file(base_offset, suffix, state)}"
