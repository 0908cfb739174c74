"""The remaining metadata records of a data directory: in its store and in the text copy. Both are
only read.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import NamedTuple

from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.log.checkpoints import MalformedCheckpoint, MetaProperties
from oncelog_server.log.checkpoints import decode_meta_properties as decode_meta
from oncelog_server.metadata.database import Database
from oncelog_server.metadata.text_copy import MalformedCopy, decode_copy, last_revision
from oncelog_server.salvage.planning.known import Known
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_COPY, METADATA_FILE


class Found(NamedTuple):
    """The metadata that is left in a data directory.

    `store` is the content of the store, or None if the store is damaged or not the newest source.
    `known` is the newest metadata, from the store or its copy. `notes` are sentences for the
    operator.
    """

    store: Snapshot | None
    known: Known | None
    meta: MetaProperties | None
    notes: list[str]


def find(path: Path) -> Found:
    """Return the metadata that is left. Raises OSError if a file cannot be read at all."""
    notes: list[str] = []
    store, torn = _store(path, notes)
    copy, is_whole = _copy(path, notes)
    found = [
        Known(snapshot, is_last, source)
        for snapshot, is_last, source in (
            (store, True, METADATA_FILE),
            (copy, is_whole, METADATA_COPY),
            (torn, False, f"the readable part of {METADATA_FILE}"),
        )
        if snapshot is not None
    ]
    known = max(found, key=lambda known: known.snapshot.revision, default=None)
    if known is None:
        notes.append(
            "no metadata records are left: the metadata is rebuilt from the partitions' folders"
        )
    else:
        notes.append(
            f"the metadata is taken from {known.source}, revision {known.snapshot.revision}"
        )
    is_last = store is not None and known is not None and store == known.snapshot
    return Found(store if is_last else None, known, meta_properties(path, notes), notes)


def _store(path: Path, notes: list[str]) -> tuple[Snapshot | None, Snapshot | None]:
    """Return the content of the store and None. If the store is damaged, return None and its
    readable part. If there is no store, or no entry in it, return None and None."""
    if not (path / METADATA_FILE).exists():
        notes.append(f"{METADATA_FILE} is missing")
        return None, None
    with tempfile.TemporaryDirectory(prefix="oncelog-") as folder:
        # A copy of the store is read, because sqlite would change the store itself.
        for file in path.glob(f"{METADATA_FILE}*"):
            if file.name.removeprefix(METADATA_FILE) in ("", "-wal"):
                shutil.copy2(file, folder)
        copy = Path(folder) / METADATA_FILE
        try:
            database = Database(copy, may_be_new=False)
            snapshot = database.range("")
            database.close()
        except OSError as error:
            notes.append(str(error).replace(str(copy), METADATA_FILE))
            return None, _readable(copy)
    if not snapshot.entries:
        notes.append(f"{METADATA_FILE} has no entries")
        return None, None
    return snapshot, None


def _readable(copy: Path) -> Snapshot | None:
    entries: list[Entry] = []
    revision = 0
    try:
        connection = sqlite3.connect(copy)
        connection.text_factory = lambda data: data.decode(errors="replace")
        try:
            for row in connection.execute(
                "SELECT key, value, create_revision, mod_revision FROM records WHERE lease_id = 0"
            ):
                entries.append(Entry(*row))
                revision = max(revision, entries[-1].mod_revision)
        finally:
            connection.close()
    except (sqlite3.Error, TypeError):
        pass  # the rows before the damage are kept
    return Snapshot(revision, tuple(entries)) if entries else None


def _copy(path: Path, notes: list[str]) -> tuple[Snapshot | None, bool]:
    """Return the records of the text copy, and True if the copy is complete. Without a readable
    copy, return None and False."""
    try:
        data = (path / METADATA_COPY).read_bytes()
        snapshot = decode_copy(data)
    except FileNotFoundError:
        notes.append(f"{METADATA_COPY} is missing")
        return None, False
    except MalformedCopy as error:
        notes.append(f"{METADATA_COPY}: {error}")
        return None, False
    is_whole = (
        data.endswith(b"\n")
        and last_revision(data) == snapshot.revision
        and (data.rsplit(b"\n", 2)[-2].startswith(b'["end",'))
    )
    if not is_whole:
        notes.append(f"{METADATA_COPY} is damaged after revision {snapshot.revision}")
    return snapshot, is_whole


def meta_properties(path: Path, notes: list[str]) -> MetaProperties | None:
    """Return meta.properties. Without a readable one, add a note and return None."""
    try:
        return decode_meta((path / META_PROPERTIES).read_bytes())
    except FileNotFoundError:
        notes.append(f"{META_PROPERTIES} is missing")
    except MalformedCheckpoint as error:
        notes.append(f"{META_PROPERTIES} {error}")
    return None
