"""The interface of the disk. An implementation is injected into the packages that do no I/O of
their own.

Append and read are synchronous, because the page cache serves them. fsync, unlink and the prefetch
of bytes that are not in the page cache are slow: they run outside of the event loop, which they
never block, and call back when they end. `os_files` and the simulator's disk implement the
interface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class StorageError(Exception):
    """`operation` on `path` failed, for the system's `reason`. It maps to KAFKA_STORAGE_ERROR.

    `needed_bytes` is the size of the failed write, 0 if it is unknown.
    """

    def __init__(self, operation: str, path: str, reason: str, needed_bytes: int = 0) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason
        self.needed_bytes = needed_bytes


Done: TypeAlias = Callable[[StorageError | None], None]


class File(Protocol):
    """A file. Its descriptor is in a bounded cache, which opens and closes it between calls.

    Every method may raise StorageError.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Return the number of bytes in the file. The handle counts them, without a system call."""
        ...

    def append(self, buffer: Buffer) -> None:
        """Append the buffer in one write.

        If the write is only partly done, the file is truncated to its old size before StorageError
        is raised, so that a file always ends at `size`.
        """
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Return False if a read of these bytes would wait for the disk. The result is an estimate:
        it may be True although some of the bytes are only on the disk."""
        ...

    def prefetch(self, position: int, size: int, done: Callable[[], None]) -> None:
        """Read bytes into the page cache outside of the event loop. After that, call `done` in the
        loop. Errors are left to the reads that follow. The range may exceed the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def probe(self, size: int) -> None:
        """Find out if the disk has space for `size` bytes: append zeros and cut them off again.

        If the disk refuses the cut, the file still ends at its old `size` for its users, and each
        `append` begins with the cut.
        """
        ...

    def trim(self) -> None:
        """Cut off the bytes that a refused append or a probe has left after `size`, if any.

        Before this call succeeds, no other code may rely on the end of the file on the disk.
        """
        ...

    def fileno(self) -> int:
        """Return a descriptor for sendfile, valid until the caller returns to the event loop.

        Return -1 if there is none (a simulated disk); the caller must then use `read`.
        """
        ...

    def close(self) -> None:
        """Close the descriptor. The handle stays usable."""
        ...

    def renamed(self, path: str) -> None:
        """Set the file's new name, after a rename.

        The handle keeps reading the same bytes, even if another file has taken the old name. The
        next `sync` makes the new name durable too.
        """
        ...


class Files(Protocol):
    """The disk. Paths use `/`, and are absolute or relative to the root of the implementation."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Return a handle. Raises StorageError if the file does not exist and `create` is False."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """Return the sorted names in `directory`. Raises StorageError if it does not exist."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents. Nothing changes if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory atomically.

        Open handles below `source` must not be used afterwards, unless `File.renamed` is called on
        them.
        """
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically: under a temporary name, synced, then renamed.

        The caller waits for the disk, so this is only for starts and stops of a broker.
        """
        ...

    def sync(self, files: Sequence[File], done: Done) -> None:
        """Make the data of `files` durable outside of the event loop. After that, call
        `done(error or None)` in the loop.

        This is fdatasync; the first sync of a file also makes its directory entry durable.
        """
        ...

    def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
        """Delete files or whole directories, outside of the event loop. Missing files are no error.

        `done` is called as in `sync`.
        """
        ...
