"""A disk in memory that can fail on purpose: `Files` for tests and the simulation.

Every reader sees appended bytes at once. Appended bytes are durable once synced. `after_kill`
returns the disk that a new process finds, `after_power_loss` the disk without the page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from oncelog_server.storage.files import Buffer, Done, File, StorageError

NO_SPACE = "No space left on device"
IO_ERROR = "Input/output error"


class Stopped(BaseException):
    """Ends the process. The first bytes of an append in progress may be written. Any other change
    in progress is not made."""


@dataclass(slots=True)
class FileNode:
    """One file: its contents, and the part that survives a power loss. `changes` is the number of
    changes, and the first `synced` changes are durable."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    entry_durable: bool = False
    changes: int = 0
    synced: int = 0


@dataclass(slots=True)
class AppendFault:
    """The `countdown`-th append to a path with `match` in it fails and writes nothing."""

    countdown: int
    match: str
    reason: str


class MemoryFile:
    """An open file. Each use looks up the file's node by its path, as `OsFiles` does when it has
    closed the descriptor."""

    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files = files
        self.path = path
        self.size = len(files.nodes[path].data)
        self._cut_pending = False

    def _node(self, operation: str) -> FileNode:
        node = self._files.nodes.get(self.path)
        if node is None:
            raise StorageError(operation, self.path, "No such file or directory")
        return node

    def append(self, buffer: Buffer) -> None:
        self.trim()
        data = bytes(buffer)
        node = self._node("append")
        self._files.before_append(node, self.path, data)
        node.data += data
        node.changes += 1
        self.size += len(data)

    def probe(self, size: int) -> None:
        self.append(bytes(size))
        self.size, self._cut_pending = self.size - size, True
        self.trim()

    def trim(self) -> None:
        if self._cut_pending:
            self.truncate(self.size)

    def read(self, position: int, size: int) -> bytes:
        node = self._node("read")
        self._files.before_read(self.path)
        return bytes(node.data[position : position + size])

    def is_cached(self, position: int, size: int) -> bool:
        return self.path not in self._files.cold

    def prefetch(self, position: int, size: int, done: Callable[[], None]) -> None:
        self._files.prefetch(self.path, done)

    def truncate(self, size: int) -> None:
        node = self._node("truncate")
        self._files.before_truncate(self.path)
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))
        node.changes += 1
        self.size, self._cut_pending = size, False

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        pass

    def renamed(self, path: str) -> None:
        self.path = path


@contextmanager
def bytes_read() -> Iterator[list[int]]:
    """Yield a list that gets the number of bytes of each read of any file."""
    read = MemoryFile.read
    counts: list[int] = []

    def counted(self: MemoryFile, position: int, size: int) -> bytes:
        data = read(self, position, size)
        counts.append(len(data))
        return data

    MemoryFile.read = counted  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        MemoryFile.read = read  # type: ignore[method-assign]


class MemoryFiles:
    """The disk. `capacity` is the size of the whole disk in bytes. `settle` completes the
    operations that end by an event: `sync`, `remove` and `prefetch`."""

    def __init__(self, *, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.nodes: dict[str, FileNode] = {}
        self.directories: set[str] = {""}
        self.pending: list[Callable[[], None]] = []
        # All changes of the disk so far. The process stops at the change with index `stop_at`.
        self.operations: list[str] = []
        self.stop_at: int | None = None
        self.torn_bytes = 0
        self.append_fault: AppendFault | None = None
        self.failing_syncs = 0
        self.failing_truncations = 0
        self.failing_reads = ""
        # The files with bytes that are only on the disk. A prefetch brings all bytes of a file,
        # unless the memory is short.
        self.cold: set[str] = set()
        self.has_short_memory = False
        self.prefetched: list[str] = []

    # Faults.

    def fail_append(self, nth: int = 1, *, match: str = "", reason: str = IO_ERROR) -> None:
        self.append_fault = AppendFault(nth, match, reason)

    def fail_sync(self, times: int = 1) -> None:
        self.failing_syncs = times

    def fail_truncation(self, times: int = 1) -> None:
        self.failing_truncations = times

    def fail_reads(self, match: str) -> None:
        self.failing_reads = match

    def stop_before(self, operation: int, *, torn_bytes: int = 0) -> None:
        """Let the change with this index in `operations` raise Stopped. If the change is an append,
        its first `torn_bytes` bytes are written."""
        self.stop_at = operation
        self.torn_bytes = torn_bytes

    def after_kill(self) -> MemoryFiles:
        """Return the disk that the next process finds. It has all written bytes and no operation in
        progress."""
        disk = MemoryFiles(capacity=self.capacity)
        disk.directories = set(self.directories)
        disk.nodes = {
            path: FileNode(bytearray(node.data), node.durable, node.entry_durable, changes=1)
            for path, node in self.nodes.items()
        }
        return disk

    def after_power_loss(self, random: Random) -> MemoryFiles:
        """Return the disk after a power loss. Unsynced ends of files are cut or torn. Files without
        a durable name may be missing."""
        disk = self.after_kill()
        for path, node in list(disk.nodes.items()):
            if not node.entry_durable and random.random() < 0.5:
                del disk.nodes[path]
                continue
            if not node.data.startswith(node.durable):
                node.data = bytearray(random.choice([node.durable, bytes(node.data)]))
                continue
            kept = random.randint(len(node.durable), len(node.data))
            del node.data[kept:]
            if kept > len(node.durable) and random.random() < 0.3:
                torn = random.randrange(len(node.durable), kept)
                node.data[torn:] = bytes(kept - torn)
        return disk

    def step(self, operation: str, path: str) -> None:
        if self.stop_at is not None and len(self.operations) >= self.stop_at:
            raise Stopped(f"{operation} {path}")
        self.operations.append(f"{operation} {path}")

    def before_append(self, node: FileNode, path: str, data: bytes) -> None:
        try:
            self.step("append", path)
        except Stopped:
            node.data += data[: self.torn_bytes]
            self.torn_bytes = 0
            raise
        fault = self.append_fault
        if fault is not None and fault.match in path:
            fault.countdown -= 1
            if not fault.countdown:
                self.append_fault = None
                raise StorageError("append", path, fault.reason, len(data))
        if self.capacity is not None:
            used = sum(len(other.data) for other in self.nodes.values())
            if used + len(data) > self.capacity:
                raise StorageError("append", path, NO_SPACE, len(data))

    def before_truncate(self, path: str) -> None:
        self.step("truncate", path)
        if self.failing_truncations:
            self.failing_truncations -= 1
            raise StorageError("truncate", path, NO_SPACE)

    def before_read(self, path: str) -> None:
        if self.failing_reads and self.failing_reads in path:
            raise StorageError("read", path, IO_ERROR)

    def prefetch(self, path: str, done: Callable[[], None]) -> None:
        self.prefetched.append(path)

        def end() -> None:
            if not self.has_short_memory:
                self.cold.discard(path)
            done()

        self.pending.append(end)

    def settle(self) -> None:
        """Complete all syncs, removals and prefetches in progress."""
        while self.pending:
            self.pending.pop(0)()

    # Files.

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if path not in self.nodes:
            if not create:
                raise StorageError("open", path, "No such file or directory")
            if path.rpartition("/")[0] not in self.directories:
                raise StorageError("create", path, "No such file or directory")
            self.step("create", path)
            self.nodes[path] = FileNode()
        return MemoryFile(self, path)

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.directories

    def list(self, directory: str) -> list[str]:
        if directory not in self.directories:
            raise StorageError("list", directory, "No such file or directory")
        prefix = f"{directory}/" if directory else ""
        below = [path for path in (*self.nodes, *self.directories) if path.startswith(prefix)]
        return sorted({path[len(prefix) :].split("/")[0] for path in below} - {""})

    def make_directory(self, path: str) -> None:
        parts = path.split("/")
        self.directories |= {"/".join(parts[:n]) for n in range(1, len(parts) + 1)}

    def rename(self, source: str, target: str) -> None:
        if not self.exists(source):
            raise StorageError("rename", source, "No such file or directory")
        self.step("rename", source)
        if source in self.nodes:
            self.nodes[target] = self.nodes.pop(source)
            return
        for path in [p for p in self.nodes if p.startswith(f"{source}/")]:
            self.nodes[target + path[len(source) :]] = self.nodes.pop(path)
        below = {p for p in self.directories if p == source or p.startswith(f"{source}/")}
        self.directories -= below
        self.directories |= {target + path[len(source) :] for path in below}

    def replace(self, path: str, data: bytes) -> None:
        self.before_append(FileNode(), path, data)
        self.nodes[path] = FileNode(bytearray(data), data, entry_durable=True)

    def sync(self, files: Sequence[File], done: Done) -> None:
        # As in POSIX, a sync need not cover writes that begin after this call.
        begun = [
            (node, node.changes, bytes(node.data))
            for file in files
            if (node := self.nodes.get(file.path)) is not None
        ]
        path = files[0].path if files else ""

        def end() -> None:
            if self.failing_syncs:
                self.failing_syncs -= 1
                done(StorageError("sync", path, IO_ERROR))
                return
            for node, changes, data in begun:
                node.entry_durable = True
                if changes > node.synced:
                    node.durable, node.synced = data, changes
            done(None)

        self.pending.append(end)

    def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
        def end() -> None:
            for path in paths:
                if not self.exists(path):
                    continue
                self.step("remove", path)
                for below in [p for p in self.nodes if p == path or p.startswith(f"{path}/")]:
                    del self.nodes[below]
                self.directories -= {p for p in self.directories if p.startswith(f"{path}/")}
                self.directories.discard(path)
            if done is not None:
                done(None)

        self.pending.append(end)
