"""The newest record of each key in a coordinator's folder, and the keys of open transactions."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from oncelog_protocol.records.batch import BatchHeader
from oncelog_protocol.records.control import EndTransactionMarker, read_marker
from oncelog_protocol.records.record import Record
from oncelog_server.inspection.folder_records import walk_folder
from oncelog_server.inspection.walk import Gap
from oncelog_server.storage.files import Files


class DamagedFolder(Exception):
    """A folder has bytes that are no batch. The message names file and position."""


class CoordinatorRecords(msgspec.Struct):
    """The records of a folder.

    `newest` are the values by key, without the records of transactions that are open or aborted.
    `pending` are the records of open transactions, by producer id.
    """

    newest: dict[bytes, bytes] = {}
    pending: dict[int, dict[bytes, bytes | None]] = {}


class _Stored(NamedTuple):
    """The newest record of a key. `offset` is its offset in the folder."""

    value: bytes | None
    offset: int


class _Replay:
    """Applies the batches of a folder in order.

    The later record of a key counts, even if the marker of a transaction follows a record outside
    of it. A tombstone also removes the pending records of its key. Source: Kafka's
    OffsetMetadataManager (KAFKA-5247); `group/offsets.py` has the same rules.
    """

    def __init__(self) -> None:
        self._newest: dict[bytes, _Stored] = {}
        self._pending: dict[int, dict[bytes, _Stored]] = {}

    def apply(self, header: BatchHeader, records: list[Record]) -> None:
        if header.is_control:
            # Compaction keeps an empty batch of a marker that it has removed.
            if records:
                self._end(header.producer_id, read_marker(records[0]))
            return
        for record in records:
            if record.key is None:
                continue
            stored = _Stored(record.value, record.offset)
            if header.is_transactional:
                self._pending.setdefault(header.producer_id, {})[record.key] = stored
            else:
                self._put(record.key, stored)

    def found(self) -> CoordinatorRecords:
        newest = {key: value for key, (value, _) in self._newest.items() if value is not None}
        pending = {
            producer_id: {key: value for key, (value, _) in records.items()}
            for producer_id, records in self._pending.items()
            if records
        }
        return CoordinatorRecords(newest, pending)

    def _end(self, producer_id: int, marker: EndTransactionMarker | None) -> None:
        ended = self._pending.pop(producer_id, {})
        if marker is None or not marker.committed:
            return
        for key, stored in ended.items():
            newest = self._newest.get(key)
            if newest is None or newest.offset < stored.offset:
                self._newest[key] = stored

    def _put(self, key: bytes, stored: _Stored) -> None:
        self._newest[key] = stored
        if stored.value is None:
            for records in self._pending.values():
                records.pop(key, None)


def read_coordinator_records(files: Files, path: str) -> CoordinatorRecords:
    """Return the records in a folder. Raises DamagedFolder, CorruptRecords and StorageError."""
    replay = _Replay()
    for batch in walk_folder(files, path):
        if isinstance(batch.found, Gap):
            raise DamagedFolder(
                f"{batch.path} is damaged at byte {batch.found.position}: {batch.found.reason}"
            )
        replay.apply(batch.found.header, batch.records())
    return replay.found()
