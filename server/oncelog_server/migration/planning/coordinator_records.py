"""The newest record of each key in a coordinator's folder, and the keys of open transactions."""

from __future__ import annotations

import msgspec

from oncelog_protocol.records.batch import BatchHeader
from oncelog_protocol.records.control import read_marker
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

    def _add(self, header: BatchHeader, records: list[Record]) -> None:
        if header.is_control:
            marker = read_marker(records[0])
            ended = self.pending.pop(header.producer_id, {})
            if marker is not None and marker.committed:
                for key, value in ended.items():
                    self._put(key, value)
            return
        for record in records:
            if record.key is None:
                continue
            if header.is_transactional:
                self.pending.setdefault(header.producer_id, {})[record.key] = record.value
            else:
                self._put(record.key, record.value)

    def _put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.newest.pop(key, None)
        else:
            self.newest[key] = value


def read_coordinator_records(files: Files, path: str) -> CoordinatorRecords:
    """Return the records in a folder. Raises DamagedFolder, CorruptRecords and StorageError."""
    found = CoordinatorRecords()
    for batch in walk_folder(files, path):
        if isinstance(batch.found, Gap):
            raise DamagedFolder(
                f"{batch.path} is damaged at byte {batch.found.position}: {batch.found.reason}"
            )
        found._add(batch.found.header, batch.records())
    return found
