"""The `.txnindex` files of a log (KIP-98), and a checkpoint with their checksums.

Kafka's rows have no checksum. If a row is lost, a reader gets aborted records.
`txn-index-checkpoint` has the number and CRC32C of the rows for each segment, in the form of
Kafka's checkpoints. If the checkpoint disagrees with a file, or is missing, the segment's rows are
computed again from the log.

The checkpoint also has the size of each segment. With the sizes, a start detects a deleted segment,
or a segment without its end (`log/damage.py`). The checkpoint is written when a segment is closed.
At a clean stop, the file of `log/closed.py` gets the same numbers for the last segment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from oncelog_protocol.checksum import crc32c
from oncelog_server.deferred import Deferred
from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    decode_lines,
    decode_numbers,
    encode_lines,
)
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.txn_index import AbortedTransaction, TxnIndex, encode_row
from oncelog_server.log.whole_files import read_whole, swap_in, write_whole
from oncelog_server.storage.files import File, Files, StorageError
from oncelog_server.storage.layout import (
    TXN_INDEX_CHECKPOINT,
    TXN_INDEX_SUFFIX,
    segment_file,
)

# Maximum number of segments with rows in memory.
_SEGMENTS_KEPT: Final = 64
_EMPTY: Final = (0, 0)
_UNKNOWN: Final = (-1, 0)

# Computes the rows of the segment with this base offset from the log.
Recompute = Callable[[int], list[AbortedTransaction]]


class AbortedTransactions:
    """The rows of each segment. Rows are loaded when a reader needs them."""

    def __init__(
        self,
        files: Files,
        directory: str,
        recompute: Recompute,
        names: Collection[str] = (TXN_INDEX_CHECKPOINT,),
    ) -> None:
        """`names`: files in `directory`. The checkpoint is read only if its name is among them."""
        self._files = files
        self._directory = directory
        self._recompute = recompute
        self._loaded: dict[int, TxnIndex] = {}
        self._growing: tuple[int, File] | None = None
        # Rows of the active segment that are not in the file yet.
        self._unwritten = bytearray()
        # Base offset -> size of the segment in bytes when the checkpoint was written. The segment
        # may have grown since then.
        self.sizes: dict[int, int] = {}
        # Base offsets of inactive segments without an entry in the checkpoint. Their rows must be
        # computed from the log (`log/unknown_rows.py`).
        self.unknown: set[int] = set()
        self._computation: Deferred[None] | None = None
        self._sums = self._load_sums() if TXN_INDEX_CHECKPOINT in names else {}
        # The base offsets in the checkpoint's file.
        self.listed: frozenset[int] = frozenset(self.sizes)
        # The contents of the checkpoint's file.
        self._written = dict(self._sums)

    def _path(self, base_offset: int) -> str:
        return f"{self._directory}/{segment_file(base_offset, TXN_INDEX_SUFFIX)}"

    def _load_sums(self) -> dict[int, tuple[int, int]]:
        """Return (number of rows, CRC) by base offset. Nothing is known of a segment without an
        entry."""
        try:
            data = read_whole(self._files, f"{self._directory}/{TXN_INDEX_CHECKPOINT}")
            rows = _decode(data or b"")
        except MalformedCheckpoint:
            return {}
        self.sizes = {base: size for base, _, _, size in rows if size >= 0}
        return {base: (count, crc) for base, count, crc, _ in rows if count >= 0}

    def after_clean_stop(self, last_base: int | None, closed: ClosedLog | None) -> None:
        """Take the numbers of the last segment from `closed`, the entry of the clean stop. The
        checkpoint's numbers are stale, because the last segment grew after the checkpoint was
        written. `last_base`: the base offset of the last segment."""
        if last_base is not None:
            self._sums.pop(last_base, None)
        if closed is not None:
            self.sizes[closed.base_offset] = closed.size
            self._sums[closed.base_offset] = closed.aborted, closed.rows_crc

    def look_for_unknown(self, base_offsets: Iterable[int]) -> None:
        """Note which of these segments are unknown. The checkpoint is missing, for example, if the
        log was copied from Kafka."""
        self.unknown = set(base_offsets) - self._sums.keys() - self._loaded.keys()

    def computing(self, begin: Callable[[], Deferred[None]]) -> Deferred[None]:
        """Return the running computation of the unknown rows. If none runs, call `begin`."""
        running = self._computation
        if running is None:
            running = self._computation = begin()
            running.on_complete(lambda _: self._computation_ended())
            running.on_abandon(self._computation_ended)
        return running

    def _computation_ended(self) -> None:
        self._computation = None

    def start(self, base_offset: int) -> None:
        """Add a segment without rows, and empty its file if the file exists. The segment is new, or
        recovery is about to scan the segment."""
        self.close()
        self.unknown.discard(base_offset)
        self._unwritten.clear()
        self._loaded[base_offset] = TxnIndex()
        if self._files.exists(self._path(base_offset)):
            write_whole(self._files, self._path(base_offset), b"")

    def append(self, base_offset: int, row: AbortedTransaction) -> None:
        """Add a row of the active segment and write the row to the file. Raises StorageError. The
        row is then in memory, but not in the file yet."""
        self.add(base_offset, row)
        self.write(base_offset)

    def add(self, base_offset: int, row: AbortedTransaction) -> None:
        """Add a row of the active segment in memory. `write` later appends the row to the file."""
        data = encode_row(row)
        self._index(base_offset).append(row, data)
        self._unwritten += data

    def write(self, base_offset: int) -> None:
        """Append the rows that are not in the file yet. Raises StorageError. The file is then
        unchanged."""
        if self._growing is None or self._growing[0] != base_offset:
            self._growing = (base_offset, self._files.open(self._path(base_offset), create=True))
        self._growing[1].append(self._unwritten)
        self._unwritten = bytearray()

    def collect(
        self, base_offsets: Iterable[int], first_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in `first_offset`..`end_offset` (exclusive).
        `base_offsets`: the base offsets of the segment with `first_offset` and of all later
        segments, because a marker may be in a later segment."""
        found: list[AbortedTransaction] = []
        for base_offset in base_offsets:
            if self._index(base_offset).collect(first_offset, end_offset, found):
                break
        return found

    def collect_in_steps(
        self, base_offsets: Iterable[int], first_offset: int, end_offset: int
    ) -> Iterator[list[AbortedTransaction]]:
        """Yield the rows of `collect`, those of one segment at each step."""
        for base_offset in base_offsets:
            found: list[AbortedTransaction] = []
            is_last = self._index(base_offset).collect(first_offset, end_offset, found)
            yield found
            if is_last:
                return

    def rows(self, base_offset: int) -> list[AbortedTransaction]:
        return self._index(base_offset).rows

    def _index(self, base_offset: int) -> TxnIndex:
        index = self._loaded.get(base_offset)
        if index is None:
            index = self._load(base_offset)
            if len(self._loaded) >= _SEGMENTS_KEPT:
                del self._loaded[min(self._loaded)]  # never the active segment, which still grows
            self._loaded[base_offset] = index
        return index

    def _load(self, base_offset: int) -> TxnIndex:
        expected = self._sums.get(base_offset)
        if expected == _EMPTY:
            return TxnIndex()
        data = read_whole(self._files, self._path(base_offset))
        index = None if data is None else TxnIndex.decode(data)
        if index is not None and (len(index.rows), index.crc) == expected:
            return index
        return self._rebuild(base_offset)

    def _rebuild(self, base_offset: int) -> TxnIndex:
        return self._take(base_offset, self._recompute(base_offset))

    def computed(self, base_offset: int, rows: list[AbortedTransaction]) -> None:
        """Take the rows of an unknown segment. Do nothing if they are known by now."""
        if base_offset in self.unknown:
            self._take(base_offset, rows)

    def _take(self, base_offset: int, rows: list[AbortedTransaction]) -> TxnIndex:
        index = TxnIndex()
        for row in rows:
            index.append(row, encode_row(row))
        path = self._path(base_offset)
        if rows or self._files.exists(path):
            with suppress(StorageError):  # the next start can compute the rows again
                write_whole(self._files, path, b"".join(map(encode_row, rows)))
        self._sums[base_offset] = (len(rows), index.crc)
        self.unknown.discard(base_offset)
        return index

    def checkpoint(self, sizes: Mapping[int, int]) -> None:
        """Write the checkpoint. `sizes`: the size of each segment in bytes, by base offset. A
        segment that no reader has loaded keeps its previous checksum. Raises StorageError."""
        known = self._known(sizes)
        lines = []
        for base_offset, size in sizes.items():
            count, crc = known.get(base_offset, _UNKNOWN)
            line = f"{base_offset} {count} {crc} {size}"
            lines.append(f"{line} {crc32c(line.encode())}")
        swap_in(self._files, f"{self._directory}/{TXN_INDEX_CHECKPOINT}", encode_lines(lines))
        self._written = known
        self.listed = frozenset(sizes)

    def is_checkpointed(self, base_offsets: Iterable[int]) -> bool:
        """Return True if the checkpoint's file is up to date for these segments."""
        known = self._known(base_offsets)
        return all(self._written.get(base_offset) == known[base_offset] for base_offset in known)

    def _known(self, base_offsets: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return number of rows and CRC by base offset."""
        for base_offset, index in self._loaded.items():
            self._sums[base_offset] = (len(index.rows), index.crc)
        sums = self._sums
        return {
            base_offset: sums[base_offset] for base_offset in base_offsets if base_offset in sums
        }

    def sum_of(self, base_offset: int) -> tuple[int, int]:
        """Return the number of the segment's rows, and their CRC32C."""
        index = self._index(base_offset)
        return len(index.rows), index.crc

    def close(self) -> None:
        """Close the file to which rows were appended last."""
        if self._growing is not None:
            self._growing[1].close()
            self._growing = None

    def forget(self, base_offset: int) -> None:
        """Forget a segment that was removed from the log."""
        if self._growing is not None and self._growing[0] == base_offset:
            self.close()
        self._loaded.pop(base_offset, None)
        self._sums.pop(base_offset, None)
        self.unknown.discard(base_offset)

    def replace(self, base_offset: int, rows: Iterable[AbortedTransaction]) -> None:
        """Replace the rows after compaction has rewritten the segment and its index."""
        index = TxnIndex()
        for row in rows:
            index.append(row, encode_row(row))
        self._loaded[base_offset] = index
        self._sums[base_offset] = (len(index.rows), index.crc)
        self.unknown.discard(base_offset)


def _decode(data: bytes) -> list[tuple[int, ...]]:
    """Return the lines as (base offset, number of rows, CRC of the rows, bytes of the segment).
    Older releases wrote no sizes and no CRC of the line. The size is then -1. Raises
    MalformedCheckpoint."""
    lines = decode_lines(data)
    if lines and lines[0].count(" ") == 2:
        return [(*row, -1) for row in decode_numbers(data, 3)]
    rows = []
    for line, row in zip(lines, decode_numbers(data, 5), strict=True):
        if crc32c(line.rpartition(" ")[0].encode()) != row[4]:
            raise MalformedCheckpoint(f"damaged line {line!r}")
        rows.append(row[:4])
    return rows
