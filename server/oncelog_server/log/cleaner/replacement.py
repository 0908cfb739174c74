"""Replaces segments by a cleaned segment. After a crash at any point, a start finds either the old
segments or the new segment (UnifiedLog.replaceSegments): `log/leftovers.py` undoes or completes the
replacement.

The new files are written with the suffix `.cleaned`, made durable, and renamed to `.swap`. From
then on the new files are valid. The old files are then renamed for deletion, and the new files get
their final names. A `.cleaned` file never has a smaller offset than a `.swap` file; otherwise a
start would undo the swap as incomplete.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product

from oncelog_server.log.cleaner.job import Chunk, Cleaned
from oncelog_server.log.leftovers import undo_compaction
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.segment import Segment
from oncelog_server.log.txn_index import encode_row
from oncelog_server.log.whole_files import remove_unfinished, write_whole
from oncelog_server.storage.files import File, StorageError
from oncelog_server.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_CHECKPOINT,
    TXN_INDEX_SUFFIX,
    segment_file,
)


class SegmentsGone(Exception):
    """The segments to replace are not in the log any more: retention has deleted them, or the log
    was cut. A segment may have been appended again after a cut, with the same base offset."""


class Replacement:
    """Writes the new segments of a pass over `log`, one after the other."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._truncations = log.segments.truncations
        # The segments of the start of the pass, by base offset.
        self._sources = {segment.base_offset: segment for segment in log.segments[:-1]}
        self._base_offset = -1
        # The files of the segment that is being written, by suffix.
        self._files: dict[str, File] = {}
        self._is_alone = False
        # True if a swap is neither complete nor undone. The files of the swap then belong to the
        # log.
        self._is_half_done = False

    def write(self, chunk: Chunk) -> None:
        """Append to the new segment. Raises StorageError."""
        self._log_file(chunk.base_offset).append(chunk.data)

    def finish(self, cleaned: Cleaned, done: Callable[[StorageError | None], None]) -> None:
        """Write the indexes and make all files durable: first the bytes, then the names that make
        them valid. Then call `done`, with an error or None. Without an error, the caller may call
        `swap`. `done` is not called after `abandon`. Raises StorageError."""
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
        """Replace the old segments by the finished segment. The next segment may be written once
        `done` reports that the names are durable. Raises SegmentsGone and StorageError. After
        StorageError the old segments are in use again. If the disk refuses to restore their names,
        the log accepts no append until the names are restored."""
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
        self._checkpoint()
        self._base_offset, self._files = -1, {}
        self._log.files.sync(files, done)

    def abandon(self) -> None:
        """End the pass early. The files of the pass get unused names, because the next pass may
        begin before the files are unlinked. If a swap could not be undone, its files stay, because
        a start may need them. The next pass removes them."""
        if self._is_half_done:
            return
        self._log.segments.end_replacement()
        gone = []
        for file in self._files.values():
            file.close()
        # The log file is renamed last. A start completes a swap that still has its log file.
        # Without the log file, a start would use the indexes of the swap for the old segment.
        for suffix, state in product(reversed(SEGMENT_SUFFIXES), (CLEANED_SUFFIX, SWAP_SUFFIX)):
            path = self._path(self._base_offset, suffix, state)
            if self._files and self._log.files.exists(path):
                with suppress(StorageError):
                    self._log.files.rename(path, path + DELETED_SUFFIX)
                    gone.append(path + DELETED_SUFFIX)
        self._base_offset, self._files = -1, {}
        if gone:
            self._log.files.remove(gone)

    def drop(self) -> None:
        """End the pass early, without a change of its files. The directory may get another name, or
        the log removes the files itself."""
        self._log.segments.end_replacement()
        for file in self._files.values():
            file.close()
        self._base_offset, self._files = -1, {}

    def _take_back(self, sources: list[Segment], named: list[str], error: StorageError) -> None:
        """Undo the renames that came before `error`, in reverse order. Each intermediate state is
        also a state of a normal swap, and a start completes a normal swap. If the disk refuses the
        undo too, the log retries it later; until then no other code may change these files."""

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
            # The log file is first in `_files` and is renamed first, because a start must never
            # complete a swap without its log file.
            self._base_offset, self._files = base_offset, {LOG_SUFFIX: file}
        return self._files[LOG_SUFFIX]

    def _clear(self) -> None:
        """Remove the files that an earlier pass had to leave. Otherwise a start would complete the
        swap of the earlier pass, and restore records that this pass removes. Raises
        StorageError."""
        if self._is_alone:
            return
        undo_compaction(self._log.files, self._log.directory)
        self._is_alone = True

    def _find(self, cleaned: Cleaned) -> list[Segment]:
        """Return the old segments. Raises SegmentsGone."""
        closed = self._log.segments[:-1]
        bases = [segment.base_offset for segment in closed]
        with suppress(ValueError):
            first = bases.index(cleaned.base_offsets[0])
            found = closed[first : first + len(cleaned.base_offsets)]
            wanted = [self._sources.get(base_offset) for base_offset in cleaned.base_offsets]
            if found == wanted and self._log.segments.truncations == self._truncations:
                return found
        raise SegmentsGone

    def _forget(self, cleaned: Cleaned) -> None:
        """Remove the checkpoint's entries of the old segments, and the snapshots that are wrong for
        the new segment. After a crash, a start computes both again. Raises StorageError."""
        log = self._log
        log.segments.begin_replacement(cleaned.base_offsets)
        if cleaned.markers_dropped:
            # A snapshot from before a dropped marker has an open transaction that no marker ends
            # any more.
            stale = [offset for offset in log.snapshots.offsets if offset < cleaned.end_offset]
        else:
            stale = [
                offset for offset in log.snapshots.offsets if offset in cleaned.base_offsets[1:]
            ]
        log.snapshots.remove_wrong(stale)

    def _checkpoint(self) -> None:
        """Write the size of the new segment. If the disk refuses the write, only the unfinished
        file is removed, now or at the next retry. The write itself is not retried: the old
        checkpoint has no wrong entry, and a late write might restore entries that the next swap has
        removed."""
        log = self._log
        try:
            log.segments.checkpoint(active=0)
        except StorageError:
            path = f"{log.directory}/{TXN_INDEX_CHECKPOINT}"
            remove = partial(remove_unfinished, log.files, path)
            log.refusals.write_or_owe(path, remove, needed=False)

    def _segment(self, sources: list[Segment], cleaned: Cleaned) -> Segment:
        """Return the segment that replaces `sources`."""
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
