"""The operating system's implementation of `Files`.

Descriptors are in a bounded cache. `sync`, `remove` and `prefetch` do their work in an executor,
all other methods on the event loop.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import count
from typing import ClassVar, Final, Protocol

from oncelog_server.operating_system.descriptors import (
    DESCRIPTOR_LIMIT,
    OutOfDescriptors,
    Shortage,
    refused,
)
from oncelog_server.operating_system.file_modes import DIRECTORY_MODE, FILE_MODE
from oncelog_server.operating_system.page_cache import Prefetches, Wanted, is_cached
from oncelog_server.operating_system.removals import Removals
from oncelog_server.storage.files import Buffer, Done, File, StorageError
from oncelog_server.storage.layout import TEMPORARY_SUFFIX
from oncelog_server.storage.turns import in_turns

# Maximum number of files that one job of the executor syncs. Their descriptors stay open during the
# job.
_SYNC_GROUP: Final = 64
# Maximum number of jobs that one call of `sync` has in the executor at once. The limit leaves
# threads for other calls.
_SYNCS_AT_ONCE: Final = 3
# The page cache has the last bytes that this process has appended to files. No system call has to
# look for them.
_RECENT_BYTES: Final = 64 << 20
_FULL_SYNC: Final = getattr(fcntl, "F_FULLFSYNC", None)


class CallOnLoop(Protocol):
    """Schedules a callback on the event loop: `loop.call_soon_threadsafe`, or a queue in a test."""

    def __call__(self, callback: Callable[[], None], /) -> object: ...


def _sync_data(descriptor: int) -> None:
    if _FULL_SYNC is not None:  # macOS: fsync alone leaves the data in the drive's cache
        fcntl.fcntl(descriptor, _FULL_SYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OsFile:
    """A file. Its descriptor is opened on first use and may be closed between any two calls."""

    __slots__ = (
        "_appended_at",
        "_close_wanted",
        "_cut_pending",
        "_descriptor",
        "_files",
        "_full_path",
        "_inode",
        "_pins",
        "_unsynced_name",
        "_used",
        "_written_from",
        "path",
        "size",
    )

    def __init__(
        self, files: OsFiles, path: str, full_path: str, size: int, inode: int | None = None
    ) -> None:
        self.path = path
        self.size = size
        # This handle has appended all bytes from here on.
        self._written_from = size
        # `OsFiles.appended_bytes` after the last append to this file.
        self._appended_at = 0
        self._files = files
        self._full_path = full_path
        # The file's identity under any name. None until the file is created.
        self._inode = inode
        # A number for each name, 0 when the file's directory entry is known to be durable.
        self._unsynced_name = next(files._names)
        self._descriptor = -1
        self._used = False
        self._pins = 0
        self._close_wanted = False
        self._cut_pending = False

    def append(self, buffer: Buffer) -> None:
        descriptor, size = self._descriptor, len(buffer)
        self._used = True
        if descriptor < 0:
            descriptor = self.fileno()
        if self._cut_pending:
            self.truncate(self.size)
        try:
            written = os.write(descriptor, buffer)
            if written != size:
                # The write was short. Writing the rest raises the cause: the disk is full, or the
                # file is too large.
                rest = memoryview(buffer)[written:]
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
        except OSError as error:
            self._cut_back()
            raise refused("append", self.path, error, size) from None
        self.size += size
        files = self._files
        self._appended_at = files.appended_bytes = files.appended_bytes + size

    def _cut_back(self) -> None:
        """Remove a partly written batch from the end of the file. If this fails, the next append
        begins with the truncation."""
        self._cut_pending = True
        with suppress(StorageError):
            self.truncate(self.size)

    def probe(self, size: int) -> None:
        end = self.size
        self.append(bytes(size))
        self.size, self._cut_pending = end, True
        self.trim()

    def trim(self) -> None:
        if self._cut_pending:
            self.truncate(self.size)

    def read(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self.fileno(), size, position)
        except OSError as error:
            raise refused("read", self.path, error) from None

    def is_cached(self, position: int, size: int) -> bool:
        if position >= self._written_from:
            # The bytes that were appended to this file and to others since the byte at `position`.
            later = self.size - position + self._files.appended_bytes - self._appended_at
            if later <= _RECENT_BYTES:
                return True
        return is_cached(self.fileno(), position, size)

    def prefetch(self, position: int, size: int, done: Callable[[], None]) -> None:
        wanted = Wanted(self.path, position, size)
        self._files._prefetches.add(wanted, self._new_descriptor, done)

    def _new_descriptor(self) -> int:
        """Return a descriptor that the caller closes. Raises OSError."""
        if self._descriptor >= 0:
            return os.dup(self._descriptor)
        return self._open(os.O_RDONLY)

    def _open(self, flags: int) -> int:
        """Return a new descriptor. Raises OSError, also if the name belongs to another file by now:
        a response that still sends this file must not send that one."""
        descriptor = os.open(self._full_path, flags)
        if os.fstat(descriptor).st_ino == self._inode:
            return descriptor
        os.close(descriptor)
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self._full_path)

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self.fileno(), size)
        except OSError as error:
            raise refused("truncate", self.path, error) from None
        self.size = size
        self._written_from = min(self._written_from, size)
        self._cut_pending = False

    def fileno(self) -> int:
        self._used = True
        if self._descriptor < 0:
            self._descriptor = self._files._open_descriptor(self)
        return self._descriptor

    def close(self) -> None:
        if self._pins:
            self._close_wanted = True
        elif self._descriptor >= 0:
            self._files._close_descriptor(self)

    def renamed(self, path: str) -> None:
        self.path = path
        self._full_path = self._files._full(path)
        self._unsynced_name = next(self._files._names)

    def _unpin(self) -> None:
        self._pins -= 1
        if self._close_wanted and not self._pins:
            self._close_wanted = False
            self.close()


def _sync_all(files: Mapping[OsFile, int], directories: Iterable[str]) -> StorageError | None:
    """Sync the data of the files, then the directories that hold the names of new files. Return the
    first error, or None. Runs in the executor."""
    path = ""
    try:
        for file, descriptor in files.items():
            path = file.path
            _sync_data(descriptor)
        for directory in directories:
            path = directory
            # A directory that was renamed or removed meanwhile has no names to sync.
            with suppress(FileNotFoundError):
                _sync_directory(directory)
    except OSError as error:
        return refused("sync", path, error)
    return None


class OsFiles:
    """Files below `root`.

    `executor` runs the slow operations, and `call_on_loop` brings their results back. All methods
    must be called on the loop's thread.
    """

    file_class: ClassVar[type[OsFile]] = OsFile

    def __init__(
        self,
        root: str,
        *,
        executor: Executor,
        call_on_loop: CallOnLoop,
        descriptor_limit: int = DESCRIPTOR_LIMIT,
    ) -> None:
        self._root = os.path.abspath(root)
        self._executor = executor
        self._call_on_loop = call_on_loop
        self._descriptor_limit = descriptor_limit
        # The file to close next comes first, see `_make_room`.
        self._open: dict[OsFile, None] = {}
        self._shortage = Shortage(executor, call_on_loop)
        self._removals = Removals(executor, call_on_loop)
        self._prefetches = Prefetches(executor, call_on_loop)
        # Numbers of the names that files get.
        self._names = count(1)
        # Bytes appended to all files by this object.
        self.appended_bytes = 0

    @property
    def open_descriptors(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Close every descriptor. The executor belongs to the caller."""
        for file in list(self._open):
            self._close_descriptor(file)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def open(self, path: str, *, create: bool = False) -> OsFile:
        full_path = self._full(path)
        try:
            found = os.stat(full_path)
        except FileNotFoundError as error:
            if not create:
                raise refused("open", path, error) from None
        except OSError as error:
            raise refused("open", path, error) from None
        else:
            # The name counts as unsynced, because the process that created the file may have
            # crashed before the name was durable.
            return self.file_class(self, path, full_path, found.st_size, found.st_ino)
        file = self.file_class(self, path, full_path, 0)
        self._make_room()
        try:
            file._descriptor = os.open(full_path, os.O_RDWR | os.O_APPEND | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise refused("create", path, error) from None
        file._inode = os.fstat(file._descriptor).st_ino
        self._open[file] = None
        return file

    def _open_descriptor(self, file: OsFile) -> int:
        self._make_room()
        try:
            descriptor = file._open(os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise refused("open", file.path, error) from None
        self._open[file] = None
        return descriptor

    def _make_room(self) -> None:
        """Close descriptors until there is room for another one, approximately those that were
        unused for longest.

        A descriptor that was used since the last check gets a second chance. Descriptors in a sync
        (pinned descriptors) stay open, even above the limit.
        """
        chances = 2 * len(self._open)
        while len(self._open) >= self._descriptor_limit and chances:
            chances -= 1
            oldest = next(iter(self._open))
            if oldest._used or oldest._pins:
                oldest._used = False
                del self._open[oldest]
                self._open[oldest] = None
            else:
                self._close_descriptor(oldest)

    def _close_descriptor(self, file: OsFile) -> None:
        del self._open[file]
        descriptor, file._descriptor = file._descriptor, -1
        with suppress(OSError):
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._full(directory)))
        except OSError as error:
            raise refused("list", directory, error) from None

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(self._full(path), DIRECTORY_MODE, exist_ok=True)
        except OSError as error:
            raise refused("make directory", path, error) from None

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(self._full(source), self._full(target))
        except OSError as error:
            raise refused("rename", source, error) from None

    def replace(self, path: str, data: bytes) -> None:
        target = self._full(path)
        temporary = target + TEMPORARY_SUFFIX
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                _sync_data(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, target)
            _sync_directory(os.path.dirname(target))
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise refused("replace", path, error, len(data)) from None

    def sync(self, files: Sequence[File], done: Done) -> None:
        ours = [file for file in files if isinstance(file, OsFile)]
        starts = range(0, max(len(ours), 1), _SYNC_GROUP)
        groups = [ours[start : start + _SYNC_GROUP] for start in starts]
        in_turns(groups, _SYNCS_AT_ONCE, self._sync_group, done)

    def _sync_group(self, group: Sequence[OsFile], done: Done) -> None:
        """Sync the files in one job of the executor. If no descriptor is free, the sync is retried
        later.

        Only an error of the disk counts as a failed sync.
        """
        try:
            pinned = self._pin(group)
        except OutOfDescriptors:
            self._shortage.retry_later(lambda: self._sync_group(group, done))
            return
        except StorageError as error:
            failure = error
            self._call_on_loop(lambda: done(failure))
            return
        names = {file: file._unsynced_name for file in pinned}
        directories = self._directories_of(file for file, name in names.items() if name)

        def synced(error: StorageError | None) -> None:
            for file, name in names.items():
                # The sync does not include a name that the file got meanwhile.
                if error is None and file._unsynced_name == name:
                    file._unsynced_name = 0
                file._unpin()
            if isinstance(error, OutOfDescriptors):
                self._shortage.retry_later(lambda: self._sync_group(group, done))
            else:
                done(error)

        def work() -> None:
            outcome = _sync_all(pinned, directories)
            self._call_on_loop(lambda: synced(outcome))

        self._executor.submit(work)

    def _pin(self, files: Iterable[OsFile]) -> dict[OsFile, int]:
        """Return the files' descriptors, which stay open until `_unpin`.

        Files that were deleted meanwhile are left out, because they need not be durable. After a
        StorageError, no file is pinned.
        """
        pinned: dict[OsFile, int] = {}
        for file in files:
            if file in pinned:
                continue
            try:
                pinned[file] = file.fileno()
                file._pins += 1
            except StorageError:
                if not os.path.exists(file._full_path):
                    continue
                for other in pinned:
                    other._unpin()
                raise
        return pinned

    def _directories_of(self, files: Iterable[OsFile]) -> Iterable[str]:
        """Return the directories of the files and all their parents, up to the root."""
        directories: dict[str, None] = {}
        for file in files:
            directory = os.path.dirname(file._full_path)
            while directory not in directories:
                directories[directory] = None
                if len(directory) <= len(self._root):
                    break
                directory = os.path.dirname(directory)
        return directories

    def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
        self._removals.add([(path, self._full(path)) for path in paths], done)

    def stop_removals(self) -> None:
        """Drop the queued removals, and the rest of the running one: the next start makes them."""
        self._removals.stop()
