"""Small files that are read and written whole: indexes, snapshots, checkpoints.

Writing does not wait for the disk: a reader detects a torn file, and its content can be computed
again.
"""

from __future__ import annotations

from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import DELETED_SUFFIX, TEMPORARY_SUFFIX


def read_whole(files: Files, path: str) -> bytes | None:
    """Return None if the file is missing or cannot be read."""
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
    """Keep the old file until the new one is written. Raises StorageError; the old file is then
    unchanged. A temporary file beside it is overwritten by the next write, or removed by the next
    start or by `remove_unfinished`."""
    write_whole(files, path + TEMPORARY_SUFFIX, data)
    files.rename(path + TEMPORARY_SUFFIX, path)


def remove_unfinished(files: Files, path: str) -> None:
    """Remove the temporary file of a `swap_in` that failed, if there is one. Raises StorageError.

    It gets another name first: the next write may come before it is unlinked."""
    temporary = path + TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.rename(temporary, temporary + DELETED_SUFFIX)
        files.remove([temporary + DELETED_SUFFIX])
