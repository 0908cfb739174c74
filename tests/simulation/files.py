"""A process's view of a SimDisk, with the interface `Files`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from oncelog_server.storage.files import Buffer, Done, File, StorageError
from oncelog_server.storage.layout import TEMPORARY_SUFFIX
from tests.simulation.disk import IO_ERROR, Begun, SimDisk
from tests.simulation.namespace import Inode, parent
from tests.simulation.process import Killed, Process

# The share of slow disk jobs, and their maximum additional duration.
_SLOW: Final = 0.1
_SLOWER_US: Final = 40_000
# The share of reads that would wait for the disk.
_COLD: Final = 0.05


class SimFile:
    """An open file. It keeps its inode, as a descriptor does. After the file is replaced, only a
    new open finds the new inode."""

    __slots__ = ("_files", "_inode", "_new", "path", "size")

    def __init__(self, files: SimFiles, path: str, inode: Inode) -> None:
        self.path = path
        self._files = files
        self._inode: Inode | None = inode
        self._new = True
        self.size = len(inode.data)

    def _open(self, operation: str) -> Inode:
        self._files.check_alive()
        if self._inode is None:
            self._inode = self._files.disk.inode(operation, self.path)
        return self._inode

    def append(self, buffer: Buffer) -> None:
        inode = self._open("append")
        data = bytes(buffer)
        if len(inode.data) != self.size:
            self.truncate(self.size)
        self._files.disk.append(inode, self.path, data)
        self.size += len(data)

    def probe(self, size: int) -> None:
        self.append(bytes(size))
        self.size -= size
        self.trim()

    def trim(self) -> None:
        if len(self._open("truncate").data) != self.size:
            self.truncate(self.size)

    def read(self, position: int, size: int) -> bytes:
        return self._files.disk.read(self._open("read"), self.path, position, size)

    def is_cached(self, position: int, size: int) -> bool:
        return self._files.disk.rng.random() >= _COLD

    def prefetch(self, position: int, size: int, done: Callable[[], None]) -> None:
        self._files._later(done)

    def truncate(self, size: int) -> None:
        self._files.disk.truncate(self._open("truncate"), self.path, size)
        self.size = size

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._inode = None

    def renamed(self, path: str) -> None:
        self.path = path
        self._new = True


class SimFiles:
    """The files of a process. After the death of `process`, operations raise Killed. A sync or a
    removal ends later, as an event of `loop`. `synced` gets the directories of the synced files,
    after the caller of the sync has its result."""

    def __init__(
        self,
        disk: SimDisk,
        process: Process,
        loop: asyncio.AbstractEventLoop,
        synced: Callable[[Collection[str]], None] = lambda directories: None,
    ) -> None:
        self.disk = disk
        self._synced = synced
        self._process = process
        self._loop = loop

    def check_alive(self) -> None:
        if self._process.is_dead:
            raise Killed

    def close(self) -> None:
        pass

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.check_alive()
        if path not in self.disk.names.files:
            if not create:
                raise StorageError("open", path, "No such file or directory")
            self.disk.create(path)
        return SimFile(self, path, self.disk.names.files[path])

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self.disk.names.exists(path)

    def list(self, directory: str) -> list[str]:
        self.check_alive()
        if directory not in self.disk.names.directories:
            raise StorageError("list", directory, "No such file or directory")
        return self.disk.names.list(directory)

    def make_directory(self, path: str) -> None:
        self.check_alive()
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            directory = "/".join(parts[:count])
            if directory not in self.disk.names.directories:
                self.disk.find_room("mkdir", directory)
                self.disk.step("mkdir", directory)
                self.disk.names.make_directory(directory)

    def rename(self, source: str, target: str) -> None:
        self.check_alive()
        if not self.disk.names.exists(source):
            raise StorageError("rename", source, "No such file or directory")
        self.disk.find_room("rename", source, target)
        self.disk.step("rename", source)
        self.disk.names.rename(source, target)

    def replace(self, path: str, data: bytes) -> None:
        self.check_alive()
        temporary = path + TEMPORARY_SUFFIX
        disk = self.disk
        try:
            disk.create(temporary)
            inode = disk.names.files[temporary]
            disk.append(inode, temporary, data)
            if not disk.end_sync(disk.begin_sync(inode)):
                raise StorageError("sync", path, IO_ERROR)
            disk.find_room("rename", temporary, path)
        except StorageError as error:
            if temporary in disk.names.files:
                disk.names.unlink(temporary)
            raise StorageError("replace", path, error.reason) from None
        disk.step("rename", temporary)
        disk.names.rename(temporary, path)
        disk.step("sync directory", path)
        disk.sync_directory(parent(path))

    def unlink_now(self, path: str) -> None:
        """Remove a file at once and durably. A start removes the mark of a clean stop in this
        way."""
        self.check_alive()
        if path in self.disk.names.files:
            self.disk.step("unlink", path)
            self.disk.names.unlink(path)
            self.disk.sync_directory(parent(path))

    def sync(self, files: Sequence[File], done: Done) -> None:
        self.check_alive()
        handles = [file for file in dict.fromkeys(files) if isinstance(file, SimFile)]
        pinned: list[tuple[SimFile, Begun]] = []
        for file in handles:
            inode = file._inode or self.disk.names.files.get(file.path)
            if inode is not None:  # a deleted file need not be durable
                pinned.append((file, self.disk.begin_sync(inode)))

        def end() -> None:
            done(self._sync_all(pinned))
            self._synced({parent(file.path) for file, _ in pinned})

        self._later(end)

    def _sync_all(self, pinned: Sequence[tuple[SimFile, Begun]]) -> StorageError | None:
        directories: dict[str, None] = {}
        for file, begun in pinned:
            self.disk.step("sync", file.path)
            if not self.disk.end_sync(begun):
                return StorageError("sync", file.path, IO_ERROR)
            if file._new:
                directory = parent(file.path)
                directories[directory] = None
                while directory:
                    directory = parent(directory)
                    directories[directory] = None
        for directory in directories:
            self.disk.sync_directory(directory)
        for file, _ in pinned:
            file._new = False
        return None

    def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
        self.check_alive()

        def end() -> None:
            for path in paths:
                if self.disk.names.exists(path):
                    self.disk.step("unlink", path)
                    self.disk.names.unlink(path)
            if done is not None:
                done(None)

        self._later(end)

    def _later(self, end: Callable[[], None]) -> None:
        """Run `end` after a random delay. In production, an executor with several threads runs such
        jobs: other work does not wait for a job, and a job may end long after jobs that began
        later."""
        rng = self.disk.rng
        delay_us = rng.randint(*self.disk.weather.sync_us)
        if rng.random() < _SLOW:
            delay_us += rng.randint(0, _SLOWER_US)
        self._loop.call_later(delay_us / 1e6, end)
