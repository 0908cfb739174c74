"""A disk in memory that can fail on purpose: `Files` for tests and simulation.

What is appended is there for every reader at once, and durable once synced. `after_kill` is the
disk a new process finds, `after_power_loss` what is left of it without the page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from oncelog_server.storage.files import Buffer, Done, File, StorageError

NO_SPACE = "No space left on device"
IO_ERROR = "Input/output error"


class Stopped(BaseException):
    """The process ends here: what was under way is done up to some byte, or not at all."""


@dataclass(slots=True)
class FileNode:
    """One file: what is in it, and what of that survives a power loss. `changes` ever made, of
    which the first `synced` are durable."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    entry_durable: bool = False
    changes: int = 0
    synced: int = 0


@dataclass(slots=True)
class AppendFault:
    """The `countdown`-th append to a path with `match` in it fails after `keep` bytes."""

    countdown: int
    match: str
    keep: int
    reason: str


class MemoryFile:
    """A handle; the node is looked up by name at each use, as a descriptor may be closed any
    time."""

    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files = files
        self.path = path
        self.size = len(files.nodes[path].data)

    def _node(self, operation: str) -> FileNode:
        node = self._files.nodes.get(self.path)
        if node is None:
            raise StorageError(operation, self.path, "No such file or directory")
        return node

    def append(self, *buffers: Buffer) -> None:
        data = b"".join(buffers)
        node = self._node("append")
        self._files.before_append(node, self.path, data)
        node.data += data
        node.changes += 1
        self.size += len(data)

    def read(self, position: int, size: int) -> bytes:
        node = self._node("read")
        self._files.before_read(self.path)
        return bytes(node.data[position : position + size])

    def truncate(self, size: int) -> None:
        node = self._node("truncate")
        self._files.step("truncate", self.path)
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))
        node.changes += 1
        self.size = size

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        pass

    def renamed(self, path: str) -> None:
        self.path = path


class MemoryFiles:
    """`capacity`: bytes on the whole disk. What ends by an event ends in `settle`."""

    def __init__(self, *, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.nodes: dict[str, FileNode] = {}
        self.directories: set[str] = {""}
        self.pending: list[Callable[[], None]] = []
        # Changes of the disk so far, and at which of them the process stops.
        self.operations: list[str] = []
        self.stop_at: int | None = None
        self.torn_bytes = 0
        self.append_fault: AppendFault | None = None
        self.failing_syncs = 0
        self.failing_reads = ""

    # Faults.

    def fail_append(
        self, nth: int = 1, *, match: str = "", keep: int = 0, reason: str = IO_ERROR
    ) -> None:
        self.append_fault = AppendFault(nth, match, keep, reason)

    def fail_sync(self, times: int = 1) -> None:
        self.failing_syncs = times

    def fail_reads(self, match: str) -> None:
        self.failing_reads = match

    def stop_before(self, operation: int, *, torn_bytes: int = 0) -> None:
        """Raise Stopped at that change; an append leaves its first `torn_bytes` behind."""
        self.stop_at = operation
        self.torn_bytes = torn_bytes

    def after_kill(self) -> MemoryFiles:
        """The disk as the next process finds it: all that was written, nothing that was pending."""
        disk = MemoryFiles(capacity=self.capacity)
        disk.directories = set(self.directories)
        disk.nodes = {
            path: FileNode(bytearray(node.data), node.durable, node.entry_durable, changes=1)
            for path, node in self.nodes.items()
        }
        return disk

    def after_power_loss(self, random: Random) -> MemoryFiles:
        """Unsynced ends are cut anywhere or torn, files without a durable name may be gone."""
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

    def before_read(self, path: str) -> None:
        if self.failing_reads and self.failing_reads in path:
            raise StorageError("read", path, IO_ERROR)

    def settle(self) -> None:
        """Let everything that is under way end."""
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
        # As POSIX has it: what is written from here on may be left out.
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
