"""Copies the folders and files of a data directory to another one, durably."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from oncelog_server.salvage.changes import sync_directory
from oncelog_server.storage.layout import LOCK, MIGRATION

# The copy must leave this much room, so that a broker can start.
_ROOM_BYTES: Final = 16 << 20


class NoRoom(Exception):
    """The disk has no room for the copy."""


def copy_all(
    source: Path, target: Path, names: Iterable[str], about_to: Callable[[str], None]
) -> None:
    """Copy folders and files by name. Everything else in `target` but its lock and its mark is
    removed first, because it comes from an interrupted copy. Raises NoRoom and OSError."""
    for path in target.iterdir():
        if path.name not in (LOCK, MIGRATION):
            about_to(f"remove {path.name}")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = [source / name for name in names if (source / name).exists()]
    needed = sum(map(_size, found)) + _ROOM_BYTES
    free = shutil.disk_usage(target).free
    if needed > free:
        raise NoRoom(f"the copy needs {needed:,} bytes, and {target} has {free:,} bytes free")
    for path in found:
        about_to(f"copy {path.name}")
        if path.is_dir():
            _copy_folder(path, target / path.name)
        else:
            _copy_file(path, target / path.name)
    sync_directory(target)


def _copy_folder(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            _copy_file(path, target / path.name)
    sync_directory(target)


def _copy_file(source: Path, target: Path) -> None:
    # The time of a file matters: retention uses it for a segment without timestamps.
    shutil.copy2(source, target)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    """Return the bytes that a copy takes. Holes of an index do not count."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())
