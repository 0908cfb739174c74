"""The `.snapshot` files of a log. A snapshot has the producers' state at an offset, so that a start
need not read the whole log.

A snapshot is written at every roll and at a clean close. The write need not wait for the disk,
because a snapshot has a CRC. A reader detects a torn snapshot, removes the file, and rebuilds the
state from the log.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from oncelog_protocol.internal import producer_snapshot as format
from oncelog_server.log.producers import NONE, BatchMetadata, ProducerEntry
from oncelog_server.log.whole_files import read_whole, swap_in
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    DELETED_SUFFIX,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    segment_file,
)

_NO_BATCH: Final = BatchMetadata(NONE, NONE, 0, NONE)


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the snapshot's bytes. The timestamp field has the broker's time of the last append,
    because the state expires by this time. In Kafka the field has the timestamp of the last
    record."""
    return format.encode_producer_snapshot(map(_row, entries))


def _row(entry: ProducerEntry) -> format.Row:
    # A roll encodes up to 100,000 rows at once. With a ProducerEntry of the format for each row,
    # that takes twice as long.
    last = entry.batches[-1] if entry.batches else _NO_BATCH
    return (
        entry.producer_id, entry.producer_epoch, last.last_sequence, last.last_offset,
        last.offset_delta, entry.updated_ms, entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )  # fmt: skip


def decode(data: bytes, now_ms: int) -> list[ProducerEntry]:
    """Return the entries of a snapshot. Times after `now_ms` become `now_ms`. Raises ValueError for
    an invalid snapshot."""
    entries = []
    for row in format.decode_producer_snapshot(data):
        timestamp = min(row.timestamp, now_ms)
        entry = ProducerEntry(
            row.producer_id,
            row.epoch,
            row.coordinator_epoch,
            timestamp,
            timestamp,
            max(row.current_txn_first_offset, NONE),
        )
        if row.last_offset >= 0:  # -1: the producer has no batches of records
            entry.batches.append(
                BatchMetadata(row.last_sequence, row.last_offset, row.offset_delta, timestamp)
            )
        entries.append(entry)
    return entries


class Snapshots:
    """The snapshot files in `directory`, by offset."""

    def __init__(self, files: Files, directory: str, offsets: Iterable[int]) -> None:
        self._files = files
        self._directory = directory
        self.offsets = sorted(offsets)
        # Offsets with a temporary file. The disk has refused to complete these snapshots.
        self._unfinished: set[int] = set()

    def _path(self, offset: int, state: str = "") -> str:
        return f"{self._directory}/{segment_file(offset, SNAPSHOT_SUFFIX, state)}"

    def take(self, offset: int, entries: Iterable[ProducerEntry]) -> None:
        """Write the snapshot of `offset`. Raises StorageError. An older snapshot of the same offset
        is then unchanged."""
        self._unfinished.add(offset)
        swap_in(self._files, self._path(offset), encode(entries))
        self._unfinished.remove(offset)
        if offset not in self.offsets:
            insort(self.offsets, offset)
        # Remove the temporary files of earlier offsets. A retry does not overwrite them, because it
        # has a later offset.
        if self._unfinished:
            left = [self._path(each, TEMPORARY_SUFFIX) for each in sorted(self._unfinished)]
            self._unfinished.clear()
            self._files.remove(left)

    def newest_offset(self, last: int) -> int:
        """Return the offset of the newest snapshot at or below the offset `last`, else -1."""
        slot = bisect_right(self.offsets, last)
        return self.offsets[slot - 1] if slot else -1

    def newest(self, first: int, last: int, now_ms: int) -> tuple[int, list[ProducerEntry]] | None:
        """Return the newest valid snapshot in `first`..`last`, or None. Remove the newer snapshots
        in this range, because they are invalid."""
        for offset in self.offsets[::-1]:
            if first <= offset <= last:
                entries = self._load(offset, now_ms)
                if entries is not None:
                    return offset, entries
        return None

    def _load(self, offset: int, now_ms: int) -> list[ProducerEntry] | None:
        try:
            return decode(read_whole(self._files, self._path(offset)) or b"", now_ms)
        except ValueError:
            self.remove([offset])
            return None

    def keep(self, wanted: Collection[int]) -> None:
        """Remove all snapshots except those at the offsets `wanted`."""
        self.remove([offset for offset in self.offsets if offset not in wanted])

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the snapshots above `end_offset`. A start would trust such a snapshot as soon as
        the log has grown beyond the snapshot's offset again. Raises StorageError."""
        self.remove_wrong([offset for offset in self.offsets if offset > end_offset])

    def remove_wrong(self, offsets: Iterable[int]) -> None:
        """Remove snapshots that a start must not read any more. Raises StorageError. The snapshot
        that the disk refused to remove, and the snapshots after it in `offsets`, are then still
        there."""
        for offset in offsets:
            removed = self._path(offset, DELETED_SUFFIX)
            self._files.rename(self._path(offset), removed)
            self.offsets.remove(offset)
            self._files.remove([removed])

    def remove(self, offsets: Collection[int]) -> None:
        """Remove snapshots that a start does not need. An error of the disk is ignored."""
        gone = []
        for offset in offsets:
            self.offsets.remove(offset)
            # The file is unlinked later and off the loop, but its name must be free at once.
            with suppress(StorageError):
                self._files.rename(self._path(offset), self._path(offset, DELETED_SUFFIX))
            gone.append(self._path(offset, DELETED_SUFFIX))
        if gone:
            self._files.remove(gone)
