"""All records of a partition's folder, also if the folder is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Record
from oncelog_server.inspection.walk import Walk, WalkedBatch
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import LOG_SUFFIX, parse_segment_file

_LARGEST_BATCH_BYTES: Final = 64 << 20


def records_in_folder(files: Files, path: str) -> Iterator[Record]:
    """Yield the records of each valid batch, in the order of their offsets, without markers. Raises
    StorageError.

    A damaged batch is left out. The start of a broker and `oncelog logs verify` name it.
    """
    for name in sorted(files.list(path)):
        parsed = parse_segment_file(name)
        if parsed is None or parsed.state or parsed.suffix != LOG_SUFFIX:
            continue
        file = files.open(f"{path}/{name}")
        try:
            walk = Walk(file, parsed.offset)
            for batch in walk:
                if isinstance(batch, WalkedBatch) and not batch.header.is_control:
                    yield from _records(walk.batch_bytes(batch))
        finally:
            file.close()


def _records(batch: bytes) -> list[Record]:
    try:
        return read_records(batch, max_bytes=_LARGEST_BATCH_BYTES)
    except CorruptRecords:
        return []
