"""Writes a data directory of Apache Kafka. An export may be interrupted after any step, and run
again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.log.checkpoints import MetaProperties, encode_meta_properties
from oncelog_server.log.scan import WALK_CHUNK, Scan
from oncelog_server.migration import markers
from oncelog_server.migration.copies import copy_all
from oncelog_server.migration.import_changes import CHECKPOINTS
from oncelog_server.migration.planning.kafka_snapshot import KafkaSnapshot
from oncelog_server.migration.planning.metadata_log import METADATA_LOG
from oncelog_server.migration.planning.moves import Moves
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.operating_system.file_modes import DIRECTORY_MODE
from oncelog_server.salvage.changes import replace_file, sync_directory
from oncelog_server.storage.layout import (
    LOG_SUFFIX,
    META_PROPERTIES,
    TXN_INDEX_CHECKPOINT,
    parse_segment_file,
    partition_directory,
)

# Maximum number of moved records in a batch.
_RECORDS_OF_A_BATCH: Final = 500


class ExportChanges:
    """Exports `source` to `target`, a new or empty directory. `about_to` gets a description of each
    change before the change is made."""

    def __init__(
        self, source: Path, target: Path, about_to: Callable[[str], None] = lambda what: None
    ) -> None:
        self._source = source
        self._target = target
        self._about_to = about_to

    def make(
        self,
        folders: Sequence[str],
        moves: Moves,
        epochs: Mapping[tuple[str, int], int],
        snapshot: KafkaSnapshot,
        meta: MetaProperties,
        now_ms: int,
    ) -> None:
        """Write the directory. `epochs` are the leader epochs by (topic, partition). Raises NoRoom,
        OSError and StorageError."""
        self._about_to("begin")
        markers.begin(self._target, self._source)
        copy_all(self._source, self._target, [*folders, *CHECKPOINTS], self._about_to)
        for folder in folders:
            (self._target / folder / TXN_INDEX_CHECKPOINT).unlink(missing_ok=True)
        for place, records in moves.records.items():
            path = self._target / partition_directory(*place)
            self._append(path, records, epochs[place], now_ms)
        metadata = self._target / METADATA_LOG
        self._about_to(f"write {METADATA_LOG}")
        metadata.mkdir(DIRECTORY_MODE)
        replace_file(metadata / snapshot.name, snapshot.data)
        sync_directory(self._target)
        # Kafka does not start without this file.
        self._about_to(f"write {META_PROPERTIES}")
        replace_file(self._target / META_PROPERTIES, encode_meta_properties(meta))
        self._about_to("end")
        markers.end(self._target)

    def _append(
        self, folder: Path, records: Mapping[bytes, bytes | None], epoch: int, now_ms: int
    ) -> None:
        """Append records to the copy of a log. Its indexes stay as they are, because Kafka rebuilds
        them from the recovery point on after a stop that was not clean."""
        self._about_to(f"append to {folder.name}")
        bases = [
            parsed.offset
            for name in os.listdir(folder)
            if (parsed := parse_segment_file(name)) is not None
            and parsed.suffix == LOG_SUFFIX
            and not parsed.state
        ]
        base = max(bases, default=0)
        path = folder / f"{base:020d}{LOG_SUFFIX}"
        offset = _end_of(path, base)
        new = [NewRecord(now_ms, key, value) for key, value in records.items()]
        with path.open("ab") as file:
            for start in range(0, len(new), _RECORDS_OF_A_BATCH):
                chunk = new[start : start + _RECORDS_OF_A_BATCH]
                file.write(build_batch(chunk, base_offset=offset, leader_epoch=epoch))
                offset += len(chunk)
            file.flush()
            os.fsync(file.fileno())


def _end_of(path: Path, base: int) -> int:
    """Return the next offset of a segment."""
    file = ReadOnlyFiles().open(str(path))
    scan = Scan(file, next_offset=base, chunk_size=WALK_CHUNK)
    for _ in scan:
        pass
    file.close()
    return scan.next_offset
