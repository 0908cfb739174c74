"""Makes the changes of a plan on disk. They may be interrupted after any step. The text copy is
written first, because it has all records that the next run needs. The folders of the partitions
come next, then the store, and meta.properties comes last. A replaced text copy, store or
meta.properties is kept under another name. Of the broker's files, only the mark of a clean stop is
deleted. The folders and meta.properties of other brokers of the machine, in directories inside the
data directory, change in the same steps.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from oncelog_server.cluster.store import Snapshot
from oncelog_server.log.checkpoints import (
    MetaProperties,
    encode_meta_properties,
    encode_partition_metadata,
)
from oncelog_server.metadata.database import write_store
from oncelog_server.metadata.text_copy import encode_copy
from oncelog_server.operating_system.file_modes import FILE_MODE
from oncelog_server.salvage.planning.machine import directory_of
from oncelog_server.salvage.planning.plan import Plan
from oncelog_server.storage.layout import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_COPY,
    METADATA_FILE,
    PARTITION_METADATA,
    TEMPORARY_SUFFIX,
)

# A dot comes before the number. With a hyphen, the file would be named like a partition.
BEFORE: Final = ".before."
NEW: Final = ".new"
# The write-ahead log (-wal) is renamed first, because sqlite would apply this log to any file with
# the store's name.
_REPLACING: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
STORE_SUFFIXES: Final = ("-wal", "-shm", "-journal", "")


class PlannedChanges:
    """Makes the changes in the data directory `path`. `about_to` gets a description of each change
    before the change is made."""

    def __init__(self, path: Path, about_to: Callable[[str], None] = lambda what: None) -> None:
        self._path = path
        self._about_to = about_to

    def make(self, plan: Plan, *, store_is_right: bool) -> None:
        """Make the changes of `plan`. Raises OSError and StorageError.

        After a failure, the changes must be made again from a new plan. `store_is_right` says that
        the store already has the plan's records.
        """
        number = free_number(self._path)
        if not store_is_right:
            self._keep(METADATA_COPY, number)
            data = encode_copy(plan.snapshot.revision, plan.snapshot.entries)
            self._replace(METADATA_COPY, data)
        for directory in sorted(plan.stray_directories):
            self._forget_clean_stop(self._path / directory)
        for old, new in plan.moves:
            self._about_to(f"rename {old} {new}")
            os.rename(self._path / old, self._path / new)
        for directory in sorted({directory_of(new) for _, new in plan.moves}):
            sync_directory(self._path / directory)
        for folder, topic_id in plan.relabelled.items():
            name = f"{folder}/{PARTITION_METADATA}"
            self._replace(name, encode_partition_metadata(topic_id))
        if not store_is_right:
            self._replace_store(plan.snapshot, number)
        for directory, meta in plan.metas.items():
            self._write_meta(self._path / directory, meta)

    def _replace(self, name: str, data: bytes) -> None:
        self._about_to(f"replace {name}")
        replace_file(self._path / name, data)

    def _write_meta(self, directory: Path, meta: MetaProperties) -> None:
        data = encode_meta_properties(meta)
        path = directory / META_PROPERTIES
        if path.exists() and path.read_bytes().splitlines() == data.splitlines():
            return
        name = str(path.relative_to(self._path))
        if path.exists():
            self._keep(name, free_number(directory))
        self._replace(name, data)

    def _forget_clean_stop(self, directory: Path) -> None:
        """Delete the mark of a clean stop, so that the next start scans the logs: the recovery
        points of partitions that were -stray folders are unknown.
        """
        mark = directory / CLEAN_SHUTDOWN
        if mark.exists():
            self._about_to(f"remove {mark.relative_to(self._path)}")
            mark.unlink()
            sync_directory(directory)

    def _replace_store(self, snapshot: Snapshot, number: int) -> None:
        new = self._path / (METADATA_FILE + NEW)
        self._about_to(f"write {new.name}")
        for suffix in STORE_SUFFIXES:
            new.with_name(new.name + suffix).unlink(missing_ok=True)
        try:
            write_store(new, snapshot)
        except sqlite3.Error as error:
            raise OSError(f"{new}: {error}") from error
        set_store_aside(self._path, number, self._about_to)
        self._about_to(f"rename {new.name} {METADATA_FILE}")
        os.rename(new, self._path / METADATA_FILE)
        sync_directory(self._path)

    def _keep(self, name: str, number: int) -> None:
        """Give a file a second name (a hard link), before the first name gets another file."""
        old = self._path / name
        if old.exists():
            self._about_to(f"link {name}")
            os.link(old, self._path / f"{name}{BEFORE}{number}")


def free_number(directory: Path) -> int:
    """Return a number that no replaced file in the directory has yet."""
    used = {
        int(text)
        for path in directory.glob(f"*{BEFORE}*")
        if (text := path.name.partition(BEFORE)[2].partition("-")[0]).isdecimal()
    }
    return max(used, default=0) + 1


def set_store_aside(directory: Path, number: int, about_to: Callable[[str], None]) -> None:
    """Rename the files of the store, if there are any, durably. Raises OSError."""
    for suffix in STORE_SUFFIXES:
        old = directory / (METADATA_FILE + suffix)
        if old.exists():
            aside = f"{METADATA_FILE}{BEFORE}{number}{suffix}"
            about_to(f"rename {old.name} {aside}")
            os.rename(old, directory / aside)
    sync_directory(directory)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a small file atomically and durably. Raises OSError."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with os.fdopen(os.open(temporary, _REPLACING, FILE_MODE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
