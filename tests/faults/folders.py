"""Whole data directories: their names, bytes, times and metadata."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.harness.broker import Oncelog

STORE = "oncelog-metadata.sqlite"
COPY = "oncelog-metadata.txt"


class Print(NamedTuple):
    """The facts about a file or directory that show a change."""

    digest: str
    mode: int
    changed_ns: int


def fingerprint(folder: Path) -> dict[str, Print]:
    """Return a `Print` of every file and directory below `folder`, and of `folder` itself by the
    name "."."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        digest = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        name = str(path.relative_to(folder))
        found[name] = Print(digest, status.st_mode, status.st_mtime_ns)
    return found


def store_files(broker: Oncelog) -> list[Path]:
    """Return the files of the metadata store with its log, without its copy."""
    return sorted(broker.data.glob(f"{STORE}*"))


def lose_store(broker: Oncelog, *, copy: bool = False) -> None:
    """Remove the metadata store, and its copy if `copy` is set."""
    for path in store_files(broker):
        path.unlink()
    if copy:
        (broker.data / COPY).unlink()


def save_metadata(broker: Oncelog, place: Path) -> None:
    """Copy the metadata to `place`, as an operator does by hand."""
    place.mkdir()
    for path in (*store_files(broker), broker.data / COPY):
        shutil.copy2(path, place)


def restore_metadata(broker: Oncelog, place: Path) -> None:
    lose_store(broker, copy=True)
    for path in place.iterdir():
        shutil.copy2(path, broker.data)


def strays(broker: Oncelog) -> list[str]:
    return sorted(path.name for path in broker.data.glob("*-stray"))
