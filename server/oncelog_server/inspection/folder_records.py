"""All batches and records of a partition's folder, even if the folder is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Record
from oncelog_server.inspection.walk import Gap, Walk, WalkedBatch
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import LOG_SUFFIX, parse_segment_file

_LARGEST_BATCH_BYTES: Final = 64 << 20


class FolderBatch(NamedTuple):
    """A batch of a folder, or the bytes between two batches. `path` is the segment's log file."""

    path: str
    found: WalkedBatch | Gap
    walk: Walk

    def records(self) -> list[Record]:
        """Return the records of a batch. Raises CorruptRecords."""
        assert isinstance(self.found, WalkedBatch)
        return read_records(self.walk.batch_bytes(self.found), max_bytes=_LARGEST_BATCH_BYTES)


def walk_folder(files: Files, path: str) -> Iterator[FolderBatch]:
    """Yield the batches of a partition's folder and the gaps between them, in the order of their
    offsets. Raises StorageError."""
    for name in sorted(files.list(path)):
        parsed = parse_segment_file(name)
        if parsed is None or parsed.state or parsed.suffix != LOG_SUFFIX:
            continue
        file = files.open(f"{path}/{name}")
        try:
            walk = Walk(file, parsed.offset)
            for found in walk:
                yield FolderBatch(f"{path}/{name}", found, walk)
        finally:
            file.close()


def records_in_folder(files: Files, path: str) -> Iterator[Record]:
    """Yield the records of each valid batch, without markers. Raises StorageError.

    A damaged batch is left out. A start of the broker and `oncelog logs verify` report it.
    """
    for batch in walk_folder(files, path):
        if isinstance(batch.found, WalkedBatch) and not batch.found.header.is_control:
            try:
                yield from batch.records()
            except CorruptRecords:
                continue
