"""Small files that are read and written as a whole: indexes, snapshots, checkpoints. A write does
not wait for the disk, because a reader detects a torn file and computes its content again.
"""

from __future__ import annotations

from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import DELETED_SUFFIX, TEMPORARY_SUFFIX


def read_whole(files: Files, path: str) -> bytes | None:
    """Return the content of the file, None if it is missing or cannot be read."""
    try:
        file = files.open(path)
        data = file.read(0, file.size)
        file.close()
    except StorageError:
        return None
    return data


def write_whole(files: Files, path: str, data: bytes) -> None:
    """Empty the file first, then write it. Raises StorageError."""
    file = files.open(path, create=True)
    try:
        if file.size:
            file.truncate(0)
        if data:
            file.append(data)
    finally:
        file.close()


def swap_in(files: Files, path: str, data: bytes) -> None:
    """Write a temporary file, then rename the file to `path`. Raises StorageError; the old file is
    then unchanged. The error may leave the temporary file. The next write overwrites this file, or
    the next start or `remove_unfinished` removes it."""
    write_whole(files, path + TEMPORARY_SUFFIX, data)
    files.rename(path + TEMPORARY_SUFFIX, path)


def remove_unfinished(files: Files, path: str) -> None:
    """Remove the temporary file of a `swap_in` that failed, if there is one. Raises StorageError.

    The file gets another name first, because the next write may come before the file is
    unlinked."""
    temporary = path + TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.rename(temporary, temporary + DELETED_SUFFIX)
        files.remove([temporary + DELETED_SUFFIX])
