"""The disk as the pure packages see it: about ten methods, injected.

Append and read are synchronous (the page cache answers); fsync and unlink are slow and end by an
event, so that neither ever stands on the event loop. Implemented by `os_files` and by the
simulator's disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class StorageError(Exception):
    """The disk refused: `operation` on `path`, with the system's reason. Maps to
    KAFKA_STORAGE_ERROR. `needed_bytes`: what was to be written, 0 where that is not known."""

    def __init__(self, operation: str, path: str, reason: str, needed_bytes: int = 0) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason
        self.needed_bytes = needed_bytes


Done: TypeAlias = Callable[[StorageError | None], None]


class File(Protocol):
    """One file by name. The descriptor behind it is opened when needed and may be closed and
    reopened by a bounded cache; every method raises StorageError."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes in the file, kept by the handle: no system call."""
        ...

    def append(self, *buffers: Buffer) -> None:
        """Write all buffers at the end as one write. If that fails part way, the file is cut back
        to its old size before StorageError is raised, so that a file ends where `size` says."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes from `position`; fewer only where the file ends."""
        ...

    def truncate(self, size: int) -> None: ...

    def fileno(self) -> int:
        """A descriptor for sendfile, valid until the caller returns to the event loop; -1 where
        there is none (a simulated disk): the caller then reads."""
        ...

    def close(self) -> None:
        """Let the descriptor go. The handle stays usable."""
        ...

    def renamed(self, path: str) -> None:
        """Note the new name of the file: the handle goes on reading the same bytes, even if another
        file has taken the old name. The next `sync` makes the new name durable too."""
        ...


class Files(Protocol):
    """Paths are strings with `/`, absolute or relative to the root the implementation was given."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Raises StorageError if the file is not there and `create` is false."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """Names in `directory`, sorted; raises StorageError if it is not there."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; fine if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic, a file or a directory. Open handles below `source` must not be used afterwards,
        unless `File.renamed` is called on them."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically: temporary name, data synced, rename. The caller
        waits for the disk: for what is written when a broker starts or stops."""
        ...

    def sync(self, files: Sequence[File], done: Done) -> None:
        """Make the data of `files` durable (fdatasync, and their directories' entries the first
        time), off the loop; `done(None)` or `done(error)` is called on the loop."""
        ...

    def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
        """Unlink files or whole directories, off the loop; missing ones are fine."""
        ...
