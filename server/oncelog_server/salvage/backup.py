"""The backup of a data directory's metadata: the store, its text copy and meta.properties.

The backup shows the metadata at one moment, even if a broker is running. It has no records of
topics.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from oncelog_server.cluster.store import Snapshot
from oncelog_server.metadata.database import Database
from oncelog_server.metadata.text_copy import encode_copy
from oncelog_server.operating_system.file_modes import DIRECTORY_MODE, make_private
from oncelog_server.salvage.changes import replace_file, sync_directory
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_COPY, METADATA_FILE

# Time that the copy waits for the store, because a starting or stopping broker locks the store for
# a moment.
BUSY_S: Final = 10.0


class BackupFailed(Exception):
    """The backup failed, and the target has no usable copy. The message is the reason."""


def back_up(source: Path, target: Path) -> Snapshot:
    """Copy the metadata in `source` to `target`, a new or empty directory. Return the metadata
    records.

    Raises BackupFailed and OSError.
    """
    if not (source / METADATA_FILE).is_file():
        raise BackupFailed(
            f"{source} is not a data directory of oncelog: it has no {METADATA_FILE}"
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupFailed(f"{target} exists and is not an empty directory")
    meta = (source / META_PROPERTIES).read_bytes()
    target.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    store = target / METADATA_FILE
    try:
        _copy_store(source / METADATA_FILE, store)
        database = Database(store, may_be_new=False)
        snapshot = database.range("")
        database.close()
    except sqlite3.Error as error:
        raise BackupFailed(f"{source / METADATA_FILE}: {error}") from error
    replace_file(target / METADATA_COPY, encode_copy(snapshot.revision, snapshot.entries))
    replace_file(target / META_PROPERTIES, meta)
    sync_directory(target.parent)
    return snapshot


def _copy_store(source: Path, target: Path) -> None:
    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)
    make_private(target)
    writing = sqlite3.connect(target)
    try:
        reading.backup(writing)
    finally:
        writing.close()
        reading.close()
