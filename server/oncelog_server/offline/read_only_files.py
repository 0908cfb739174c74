"""The operating system's files, open for reading only. A method that would change a file raises
StorageError.

At most OPEN_LIMIT files have a descriptor. Another descriptor is opened when the file is read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from oncelog_server.storage.files import Buffer, Done, StorageError
from oncelog_server.storage.layout import LOCK

# Maximum number of descriptors. A directory may have more files than a process may have descriptors
# (`ulimit -n`), and not every reader closes its files.
OPEN_LIMIT: Final = 64


class ReadOnlyFile:
    """A file. `size` is its size when it was opened. `opened` are the files with a descriptor, in
    the order in which they got it."""

    def __init__(self, path: str, opened: dict[ReadOnlyFile, None]) -> None:
        self.path = path
        self._opened = opened
        self._descriptor = -1
        found = os.fstat(self._open())
        self.size = found.st_size
        self._inode = found.st_ino

    def read(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self.fileno(), max(min(size, self.size - position), 0), position)
        except OSError as error:
            raise _failure("read", self.path, error) from None

    def fileno(self) -> int:
        if self._descriptor < 0 and os.fstat(self._open()).st_ino != self._inode:
            self.close()
            raise StorageError("open", self.path, "another file has taken this name")
        return self._descriptor

    def _open(self) -> int:
        """Open a descriptor, instead of the oldest one at the limit. Raises StorageError."""
        if len(self._opened) == OPEN_LIMIT:
            next(iter(self._opened)).close()
        self._descriptor = _open(self.path)
        self._opened[self] = None
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            del self._opened[self]
            os.close(descriptor)

    def is_cached(self, position: int, size: int) -> bool:
        return True

    def prefetch(self, position: int, size: int, done: Callable[[], None]) -> None:
        done()

    def append(self, buffer: Buffer) -> None:
        _refuse("append", self.path)

    def truncate(self, size: int) -> None:
        _refuse("truncate", self.path)

    def probe(self, size: int) -> None:
        _refuse("append", self.path)

    def trim(self) -> None:
        _refuse("truncate", self.path)

    def renamed(self, path: str) -> None:
        _refuse("rename", self.path)


class ReadOnlyFiles:
    """The operating system's files. Paths are absolute or relative to `root`, which is the working
    directory by default."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._opened: dict[ReadOnlyFile, None] = {}

    def open(self, path: str, *, create: bool = False) -> ReadOnlyFile:
        if create:
            _refuse("create", path)
        return ReadOnlyFile(os.path.join(self._root, path), self._opened)

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self._root, path))

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(os.path.join(self._root, directory)))
        except OSError as error:
            raise _failure("list", directory, error) from None

    def make_directory(self, path: str) -> None:
        _refuse("make directory", path)

    def rename(self, source: str, target: str) -> None:
        _refuse("rename", source)

    def replace(self, path: str, data: bytes) -> None:
        _refuse("replace", path)

    def sync(self, files: Sequence[object], done: Done) -> None:
        _refuse("sync", "files")

    def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
        _refuse("remove", ", ".join(paths))


def is_in_use(data_directory: str) -> bool:
    """Return True if a broker holds the lock of the data directory. The lock file is not
    created."""
    try:
        descriptor = os.open(os.path.join(data_directory, LOCK), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        with suppress(OSError):
            os.close(descriptor)
    return False


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _failure("open", path, error) from None


def _failure(operation: str, path: str, error: OSError) -> StorageError:
    return StorageError(operation, path, error.strerror or str(error))


def _refuse(operation: str, path: str) -> NoReturn:
    raise StorageError(operation, path, "only reading is allowed here")
