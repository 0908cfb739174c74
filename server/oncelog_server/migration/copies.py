"""Copies the folders and files of a data directory to another one, durably."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from oncelog_server.operating_system.file_modes import DIRECTORY_MODE
from oncelog_server.salvage.changes import sync_directory
from oncelog_server.storage.layout import LOCK, LOST_AND_FOUND, MIGRATION

# The copy must leave this much room, so that a broker can start.
_ROOM_BYTES: Final = 16 << 20
_PART: Final = 1 << 20
# The names in `target` that no copy has written.
_KEPT: Final = (LOCK, LOST_AND_FOUND, MIGRATION)


class NoRoom(Exception):
    """The disk has no room for the copy."""


def copy_all(
    source: Path, target: Path, names: Iterable[str], about_to: Callable[[str], None]
) -> None:
    """Copy folders and files by name. The rest of an interrupted copy in `target` is removed first.
    Raises NoRoom and OSError."""
    for path in target.iterdir():
        if path.name in _KEPT:
            continue
        about_to(f"remove {path.name}")
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
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
    target.mkdir(DIRECTORY_MODE)
    for path in source.iterdir():
        if path.is_file():
            _copy_file(path, target / path.name)
    sync_directory(target)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file with its holes. After a kill, the indexes of Kafka's active segments have 10 MB
    each, almost all of it a hole."""
    with source.open("rb") as reading, target.open("wb") as writing:
        size = os.fstat(reading.fileno()).st_size
        for begin, end in _extents(reading.fileno(), size):
            reading.seek(begin)
            writing.seek(begin)
            while (left := end - reading.tell()) > 0 and (part := reading.read(min(left, _PART))):
                writing.write(part)
        writing.truncate(size)
        writing.flush()
        os.fsync(writing.fileno())
    # The time of a file matters: retention uses it for a segment without timestamps.
    shutil.copystat(source, target)


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the parts of a file that are no holes."""
    position = 0
    while position < size:
        try:
            begin = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        position = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, position


def _size(path: Path) -> int:
    """Return the bytes that a copy takes. Holes of an index do not count."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())
