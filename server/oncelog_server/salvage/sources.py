"""The records that are left of a data directory's metadata: its store and the store's copy, looked
at without touching them."""

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
from oncelog_server.salvage.plan import Known
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_COPY, METADATA_FILE


class Found(NamedTuple):
    """`store` is what the store itself holds, if it is whole; `known` the newest metadata that is
    left, from either. `told` are sentences for the operator."""

    store: Snapshot | None
    known: Known | None
    meta: MetaProperties | None
    told: list[str]


def find(path: Path) -> Found:
    """Raises OSError where a file cannot be read at all."""
    told: list[str] = []
    store, torn = _store(path, told)
    copy, is_whole = _copy(path, told)
    found = [
        Known(snapshot, is_last, source)
        for snapshot, is_last, source in (
            (store, True, METADATA_FILE),
            (copy, is_whole, METADATA_COPY),
            (torn, False, f"what can be read of {METADATA_FILE}"),
        )
        if snapshot is not None
    ]
    known = max(found, key=lambda one: one.snapshot.revision, default=None)
    if known is None:
        told.append(
            "no metadata records are left: the metadata is made from the folders of the partitions"
        )
    else:
        told.append(
            f"the metadata is taken from {known.source}, revision {known.snapshot.revision}"
        )
    is_last = store is not None and known is not None and store == known.snapshot
    return Found(store if is_last else None, known, _meta(path, told), told)


def _store(path: Path, told: list[str]) -> tuple[Snapshot | None, Snapshot | None]:
    """What it holds if it is whole, else what can be read of it."""
    if not (path / METADATA_FILE).exists():
        told.append(f"{METADATA_FILE} is gone")
        return None, None
    with tempfile.TemporaryDirectory(prefix="oncelog-") as folder:
        # A copy: reading a store puts its log into it.
        for one in path.glob(f"{METADATA_FILE}*"):
            if one.name.removeprefix(METADATA_FILE) in ("", "-wal"):
                shutil.copy2(one, folder)
        place = Path(folder) / METADATA_FILE
        try:
            database = Database(place, may_be_new=False)
            snapshot = database.range("")
            database.close()
        except OSError as error:
            told.append(str(error).replace(str(place), METADATA_FILE))
            return None, _readable(place)
    if not snapshot.entries:
        told.append(f"{METADATA_FILE} has no entries")
        return None, None
    return snapshot, None


def _readable(place: Path) -> Snapshot | None:
    entries: list[Entry] = []
    revision = 0
    try:
        connection = sqlite3.connect(place)
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
        pass  # the rows before it are what there is
    return Snapshot(revision, tuple(entries)) if entries else None


def _copy(path: Path, told: list[str]) -> tuple[Snapshot | None, bool]:
    """Its records, and whether it ends as it was written."""
    try:
        data = (path / METADATA_COPY).read_bytes()
        snapshot = decode_copy(data)
    except FileNotFoundError:
        told.append(f"{METADATA_COPY} is gone")
        return None, False
    except MalformedCopy as error:
        told.append(f"{METADATA_COPY}: {error}")
        return None, False
    is_whole = (
        data.endswith(b"\n")
        and last_revision(data) == snapshot.revision
        and (data.rsplit(b"\n", 2)[-2].startswith(b'["end",'))
    )
    if not is_whole:
        told.append(f"{METADATA_COPY} is damaged behind revision {snapshot.revision}")
    return snapshot, is_whole


def _meta(path: Path, told: list[str]) -> MetaProperties | None:
    try:
        return decode_meta((path / META_PROPERTIES).read_bytes())
    except FileNotFoundError:
        told.append(f"{META_PROPERTIES} is gone")
    except MalformedCheckpoint as error:
        told.append(f"{META_PROPERTIES} {error}")
    return None
