"""Small files that are read and written whole: indexes, snapshots, checkpoints.

Writing does not wait for the disk: a reader detects a torn file, and its content can be computed
again.
"""

from __future__ import annotations

from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import TEMPORARY_SUFFIX


def read_whole(files: Files, path: str) -> bytes | None:
    """None if it is not there or cannot be read."""
    try:
        file = files.open(path)
        data = file.read(0, file.size)
        file.close()
    except StorageError:
        return None
    return data


def write_whole(files: Files, path: str, data: bytes) -> None:
    """What was there is gone first. Raises StorageError."""
    file = files.open(path, create=True)
    try:
        if file.size:
            file.truncate(0)
        if data:
            file.append(data)
    finally:
        file.close()


def swap_in(files: Files, path: str, data: bytes) -> None:
    """The old file stays until the new one is written. Raises StorageError, and the old one is
    whole; what is left beside it is written over next time, or swept at the next start."""
    write_whole(files, path + TEMPORARY_SUFFIX, data)
    files.rename(path + TEMPORARY_SUFFIX, path)
