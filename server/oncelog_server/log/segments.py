"""The segments of one log (Kafka's LogSegments and LocalLog): their order, the active segment, the
indexes in memory, and the files that are not durable yet.

Only this module adds and removes segments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final, NamedTuple, overload

from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.results import Flush
from oncelog_server.log.segment import Segment
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.storage.files import File, Files, StorageError
from oncelog_server.storage.layout import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_file

# Maximum number of inactive segments with indexes in memory.
_INDEXED_SEGMENTS: Final = 8

_base_offset = attrgetter("base_offset")


class Cut(NamedTuple):
    """The place where a log is cut. The first `position` bytes of `segment` stay, and `segment`
    becomes the active segment. The log then ends at `end_offset`."""

    segment: Segment
    position: int
    end_offset: int


class _FoundCut(NamedTuple):
    """The cut at `offset` of a log that ends at `end_offset`."""

    offset: int
    end_offset: int
    cut: Cut


class LogSegments(Sequence[Segment]):
    """The segments of a log in the order of their offsets. There is at least one segment. `aborted`
    has the txnindexes of the segments."""

    __slots__ = ("_closed_bytes", "_directory", "_files", "_found_cut", "_indexed",
                 "_opened_at_bytes", "_ordered", "_replaced", "_rolled_bytes", "_truncations",
                 "_unsynced", "aborted", "active", "deleted")  # fmt: skip

    def __init__(
        self, files: Files, directory: str, segments: list[Segment], aborted: AbortedTransactions,
        unsynced: Iterable[File],
    ) -> None:  # fmt: skip
        """The new object keeps the list `segments` and changes the list. `unsynced`: files of
        inactive segments, as in Flush."""
        self._files = files
        self._directory = directory
        self._ordered = segments
        self.active = segments[-1]
        self.aborted: Final = aborted
        aborted.look_for_unknown(segment.base_offset for segment in segments[:-1])
        self._closed_bytes = sum(segment.size for segment in segments[:-1])
        # `appended_bytes` is computed from these two.
        self._opened_at_bytes = self.active.size
        self._rolled_bytes = 0
        self._unsynced = list(unsynced)
        self._truncations = 0
        # The result of the last `cut_at`, which the truncation asks for again.
        self._found_cut: _FoundCut | None = None
        # Segments with indexes in memory, by base offset. The most recently used segment is at the
        # end.
        self._indexed: dict[int, Segment] = {}
        # Files of deleted segments, each with the time from which it may be unlinked. A reader may
        # still use the files before that time.
        self.deleted: list[tuple[int, list[str]]] = []
        # Base offsets of the segments that compaction is about to replace. The checkpoint must not
        # have their sizes: a kill may leave the new, smaller segment under the same name.
        self._replaced: frozenset[int] = frozenset()

    @overload
    def __getitem__(self, slot: int) -> Segment: ...
    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...
    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._ordered[slot]

    def __len__(self) -> int:
        return len(self._ordered)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._ordered)

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segments from the segment with `offset` on."""
        ordered = self._ordered
        return ordered[max(bisect_right(ordered, offset, key=_base_offset) - 1, 0) :]

    @property
    def size_bytes(self) -> int:
        return self._closed_bytes + self.active.size

    @property
    def appended_bytes(self) -> int:
        """Return the number of bytes appended since the log was opened. The bytes of deleted
        segments count too."""
        return self._rolled_bytes + self.active.size - self._opened_at_bytes

    def keep_indexes(self, segment: Segment) -> None:
        """Keep the segment's indexes in memory. If too many segments have indexes in memory, free
        the least recently used ones. The indexes of the active segment always stay."""
        if segment is self.active:
            return
        indexed = self._indexed
        indexed.pop(segment.base_offset, None)
        indexed[segment.base_offset] = segment
        if len(indexed) > _INDEXED_SEGMENTS:
            indexed.pop(next(iter(indexed))).forget_indexes()

    # Adding and removing segments.

    @property
    def truncations(self) -> int:
        """Return the number of times that `truncate` and `restart` have cut the log."""
        return self._truncations

    def roll(self, now_ms: int, jitter_ms: int) -> None:
        """Begin a new segment at the end of the log. Raises StorageError. Nothing has then changed,
        because the operations that the disk may refuse come first."""
        old = self.active
        old.write_indexes()
        self.checkpoint(active=old.size, following=(old.end_offset,))
        closed = old.files()
        new = Segment.create(
            self._files, self._directory, old.end_offset, now_ms=now_ms, jitter_ms=jitter_ms
        )
        self.aborted.start(new.base_offset)
        self._ordered.append(new)
        self.active = new
        self._closed_bytes += old.size
        self._rolled_bytes += old.size
        self.keep_indexes(old)
        self._unsynced += closed

    def forget_below(self, start_offset: int) -> None:
        """Write the checkpoint without the segments wholly below `start_offset`, which are about to
        be removed. Otherwise a start would report them as missing if the topic has another cleanup
        policy by then. If the disk is full, they stay in the checkpoint until the next roll."""
        below = [each.base_offset for each in self._ordered[:-1] if each.end_offset <= start_offset]
        if not self.aborted.listed.isdisjoint(below):
            with suppress(StorageError):
                self.checkpoint(active=self.active.size, without=below)

    def remove_first(self, count: int, due_ms: int) -> None:
        """Remove the first `count` segments from the log. The active segment must not be among
        them. The files of the removed segments are renamed now, and unlinked from `due_ms` on.
        Raises StorageError at the first segment that the disk refuses to rename."""
        removed: list[Segment] = []
        try:
            for segment in self._ordered[:count]:
                self.deleted.append((due_ms, segment.mark_deleted()))
                removed.append(segment)
        finally:
            if removed:
                self._exchange(removed, [])

    def begin_replacement(self, base_offsets: Iterable[int]) -> None:
        """Write the checkpoint without these segments. Each later checkpoint leaves them out too,
        until `replace` or `end_replacement`, because a roll may write the checkpoint before the
        swap. Raises StorageError."""
        self._replaced = frozenset(base_offsets)
        self.checkpoint(active=0)

    def end_replacement(self) -> None:
        """Use the sizes of all segments in the next checkpoint again."""
        self._replaced = frozenset()

    def replace(
        self, sources: Sequence[Segment], new: Segment, rows: Iterable[AbortedTransaction],
        deleted: Iterable[list[str]], due_ms: int,
    ) -> None:  # fmt: skip
        """Replace consecutive inactive segments by `new`. `rows` is the txnindex of `new`. The
        files of the replaced segments already have the names `deleted`. These files are unlinked
        from `due_ms` on."""
        self.deleted += [(due_ms, paths) for paths in deleted]
        self._exchange(sources, [new])
        self.aborted.replace(new.base_offset, rows)
        self.end_replacement()

    def _exchange(self, sources: Sequence[Segment], replacement: list[Segment]) -> None:
        """Replace the segments `sources` by `replacement`, and remove the state of `sources`."""
        slot = self._ordered.index(sources[0])
        self._ordered[slot : slot + len(sources)] = replacement
        self._closed_bytes += sum(segment.size for segment in replacement)
        gone: set[str] = set()
        for segment in sources:
            self._closed_bytes -= segment.size
            gone |= {segment.log.path, *map(segment.path, SEGMENT_SUFFIXES)}
            self._indexed.pop(segment.base_offset, None)
            self.aborted.forget(segment.base_offset)
        self._unsynced = [file for file in self._unsynced if file.path not in gone]

    def cut_at(self, offset: int) -> Cut:
        """Return the place of a cut at `offset`. The cut leaves no batch with a record at or above
        `offset`, and no empty segment except the first. The walk begins at an index entry. A
        repeated call reads nothing while the log does not change. Raises StorageError and
        CorruptLog."""
        log_end_offset, known = self.active.end_offset, self._found_cut
        if known is not None and known[:2] == (offset, log_end_offset):
            segment, ordered = known.cut.segment, self._ordered
            slot = bisect_right(ordered, segment.base_offset, key=_base_offset) - 1
            if slot >= 0 and ordered[slot] is segment:
                return known.cut
        for segment in reversed(self._ordered):
            if segment.base_offset >= offset and segment is not self._ordered[0]:
                continue
            self.keep_indexes(segment)
            position, end_offset = 0, segment.base_offset
            # The cut keeps the batch with this offset.
            scan = segment.walk_from(offset - 1)
            for start, header in scan:
                if header.last_offset >= offset:
                    break
                position, end_offset = start + header.size, header.next_offset
            if scan.problem is not None:
                raise CorruptLog(segment.log.path, scan.position, scan.problem)
            if position:
                break
        cut = Cut(segment, position, end_offset)
        self._found_cut = _FoundCut(offset, log_end_offset, cut)
        return cut

    def truncate(self, cut: Cut, interval: int) -> None:
        """Cut the log. `interval`: `index.interval.bytes`. The last segment is removed first, so
        that a crash leaves a log without a gap. Raises StorageError and CorruptLog. After an error,
        only a restart can find out which batches are left."""
        segment, appended_bytes = cut.segment, self.appended_bytes
        rows = [
            row
            for row in self.aborted.rows(segment.base_offset)
            if row.last_offset < cut.end_offset
        ]
        slot = self._ordered.index(segment)
        gone = self._ordered[slot + 1 :]
        for later in reversed(gone):
            self._files.remove(later.mark_deleted())
        segment.truncate(cut.position, interval)
        # The next sync includes the directory. Otherwise a power failure might restore a removed
        # segment, and a start would then cut off batches that were appended later.
        segment.log.renamed(segment.log.path)
        self._truncations += 1
        self._found_cut = None
        if gone:
            self._exchange(gone, [])
        self.active = segment
        self._indexed.pop(segment.base_offset, None)
        self._closed_bytes = sum(inactive.size for inactive in self._ordered[:-1])
        self._rolled_bytes += appended_bytes - self.appended_bytes
        own = {segment.log.path, *map(segment.path, SEGMENT_SUFFIXES)}
        self._unsynced = [file for file in self._unsynced if file.path not in own]
        self.aborted.start(segment.base_offset)
        for row in rows:
            self.aborted.append(segment.base_offset, row)

    def restart(self, offset: int, now_ms: int, jitter_ms: int) -> None:
        """Remove all segments, the last one first, and begin with an empty segment at `offset`.
        Raises StorageError. After an error, only a restart of the broker can find out which
        segments are left."""
        gone, appended_bytes = list(self._ordered), self.appended_bytes
        for segment in reversed(gone):
            self._files.remove(segment.mark_deleted())
        new = Segment.create(
            self._files, self._directory, offset, now_ms=now_ms, jitter_ms=jitter_ms
        )
        # The next sync includes the directory, as after `truncate`.
        new.log.renamed(new.log.path)
        self._truncations += 1
        self._found_cut = None
        self._exchange(gone, [new])
        self.active = new
        self._closed_bytes = 0
        self._rolled_bytes += appended_bytes - self.appended_bytes
        self.aborted.start(offset)

    def remove_due(self, now_ms: int) -> None:
        """Unlink the files of deleted segments that are due."""
        if not self.deleted:
            return
        # If the disk refused a deletion halfway, a segment of the log is still read under its
        # deleted name. The entry of an earlier segment with the same base offset then has the same
        # name. This entry must wait, because it would unlink the file of the segment in use.
        used = {segment.log.path for segment in self._ordered}
        entries, self.deleted = self.deleted, []
        for due_ms, paths in entries:
            if due_ms <= now_ms and used.isdisjoint(paths):
                self._files.remove(paths)
            else:
                self.deleted.append((due_ms, paths))

    # Durability.

    def checkpoint(
        self, *, active: int, following: Iterable[int] = (), without: Iterable[int] = ()
    ) -> None:
        """Write the checksums of the txnindexes and the sizes of the segments. `active` is the size
        of the active segment. Segments in `following` do not exist yet and have size 0. Segments in
        `without`, and those of `begin_replacement`, are left out. Raises StorageError."""
        sizes = {segment.base_offset: segment.size for segment in self._ordered[:-1]}
        sizes |= {self.active.base_offset: active, **dict.fromkeys(following, 0)}
        for base_offset in self._replaced.union(without):
            sizes.pop(base_offset, None)
        self.aborted.checkpoint(sizes)

    @property
    def is_checkpointed(self) -> bool:
        """Return True if the checkpoint has everything that is known of the inactive segments'
        txnindexes."""
        return self.aborted.is_checkpointed(segment.base_offset for segment in self._ordered[:-1])

    @property
    def unsynced(self) -> Sequence[File]:
        """The files that a sync has to include, besides the files of the active segment."""
        return self._unsynced

    def add_unsynced(self, file: File) -> None:
        self._unsynced.append(file)

    def begin_flush(self, *, growing: bool) -> Flush:
        """Return the files to sync so that all segments are durable. If not `growing`, the active
        segment is left out."""
        active = self.active
        if growing:
            return Flush(list(self._unsynced), active.end_offset, active.log, self._truncations)
        return Flush(list(self._unsynced), active.base_offset, None, self._truncations)

    def is_uncut_since(self, flush: Flush) -> bool:
        """Return False if the log was cut after the begin of `flush`. The files may then have other
        bytes now."""
        return flush.truncations == self._truncations

    def finish_flush(self, flush: Flush) -> None:
        """Forget the files of `flush`, because these files are durable and were not cut."""
        synced = set(map(id, flush.closed))
        self._unsynced = [file for file in self._unsynced if id(file) not in synced]
        for file in flush.closed:
            file.close()

    def end_of_file(self, file: File) -> int:
        """Return an offset above all batches of a segment's file. Return 0 if the log does not have
        the segment any more."""
        return next((each.end_offset for each in self._ordered if each.log is file), 0)

    def renamed(self, directory: str) -> None:
        """Note that the directory of the deleted log has this name. A response that is still sent
        from a segment must not open a file of a new log in the old directory."""
        for segment in self._ordered:
            segment.log.renamed(f"{directory}/{segment_file(segment.base_offset, LOG_SUFFIX)}")

    def close(self) -> None:
        """Close all descriptors. A descriptor is opened again when needed."""
        self.aborted.close()
        for segment in self._ordered:
            segment.close()
