"""Names of files and directories, as a process sees them and as a power loss leaves them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Inode:
    """One file's bytes: `data` in the page cache, and `durable` on the disk. `unsynced`:
    the writes in between, in order, as (position, bytes), or (size, None) for a truncation.
    `changes` counts all changes, `synced` the changes on the disk."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    changes: int = 0
    synced: int = 0
    # The number of truncations, and of failed syncs.
    cuts: int = 0
    failures: int = 0


@dataclass(slots=True, eq=False)
class Directory:
    """One directory, whatever its name. `durable`: the names on the disk. They are lost with the
    directory's own name."""

    durable: dict[str, Inode | Directory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class NameChange:
    """One change of the names in a directory. `kind`: create, mkdir, rename or unlink. `node`: the
    created, renamed or removed file or directory. `target`: the new name of a rename."""

    kind: str
    directory: Directory
    name: str
    node: Inode | Directory
    target: str = ""

    def apply(self) -> None:
        """Make the change durable. Skip a change that does not fit, because an earlier change may
        have been lost. A file replaces another file of its name. A directory never replaces
        another. If a directory was replaced by a new one of the same name, a change of the old
        directory does not affect the new one."""
        durable = self.directory.durable
        is_named = durable.get(self.name) is self.node
        is_file = isinstance(self.node, Inode)
        match self.kind:
            case "create":
                durable[self.name] = self.node
            case "mkdir":
                durable.setdefault(self.name, self.node)
            case "unlink" if is_named or is_file:
                durable.pop(self.name, None)
            case "rename" if is_named and (is_file or self.target not in durable):
                durable[self.target] = durable.pop(self.name)


def parent(path: str) -> str:
    return path.rpartition("/")[0]


class Namespace:
    """Files and directories by path, as a process sees them. The root is "". Both are dictionaries,
    which keep the order of insertion. `journal`: the changes that no sync of their directory has
    made durable, oldest first."""

    def __init__(self) -> None:
        self.root = Directory()
        self.files: dict[str, Inode] = {}
        self.directories: dict[str, Directory] = {"": self.root}
        self.journal: list[NameChange] = []

    # Changes. A change that does not fit has no effect.

    def create(self, path: str) -> Inode:
        """Return the new file."""
        inode = Inode()
        if (directory := self.directories.get(parent(path))) is not None:
            self.files[path] = inode
            self._note("create", directory, path, inode)
        return inode

    def make_directory(self, path: str) -> None:
        directory = self.directories.get(parent(path))
        if directory is not None and not self.exists(path):
            self.directories[path] = made = Directory()
            self._note("mkdir", directory, path, made)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory inside its directory. Raise ValueError for a move to another
        directory: oncelog makes no such move, which would need a sync of both directories."""
        if parent(source) != parent(target):
            raise ValueError(f"a move from {source} to {target} has no rule")
        directory = self.directories.get(parent(source))
        node = self.files.get(source) or self.directories.get(source)
        if directory is None or node is None:
            return
        if isinstance(node, Inode):
            self.files[target] = self.files.pop(source)
        else:
            for path in _from(self.files, source):
                self.files[target + path[len(source) :]] = self.files.pop(path)
            for path in _from(self.directories, source):
                self.directories[target + path[len(source) :]] = self.directories.pop(path)
        self._note("rename", directory, source, node, target)

    def unlink(self, path: str) -> None:
        """Remove a file, or a directory with all below it."""
        node = self.files.pop(path, None) or self.directories.get(path)
        directory = self.directories.get(parent(path))
        if directory is None or node is None:
            return
        if isinstance(node, Directory):
            for below in _from(self.files, path):
                del self.files[below]
            for below in _from(self.directories, path):
                del self.directories[below]
        self._note("unlink", directory, path, node)

    def _note(
        self,
        kind: str,
        directory: Directory,
        path: str,
        node: Inode | Directory,
        target: str = "",
    ) -> None:
        name, new = path.rpartition("/")[2], target.rpartition("/")[2]
        self.journal.append(NameChange(kind, directory, name, node, new))

    # The disk.

    def sync(self, directory: Directory, begun: Collection[NameChange] | None = None) -> None:
        """Make the changes in a directory durable. If `begun` is given, only the changes in it."""
        left = []
        removed: set[Directory] = set()
        for change in self.journal:
            if change.directory is directory and (begun is None or change in begun):
                change.apply()
                if change.kind == "unlink" and isinstance(change.node, Directory):
                    removed.add(change.node)
            else:
                left.append(change)
        self.journal = left
        if removed:
            self._forget(removed)

    def _forget(self, removed: set[Directory]) -> None:
        """Drop the changes in directories with a durable removal."""
        left = []
        for change in self.journal:
            if change.directory not in removed:
                left.append(change)
            elif isinstance(change.node, Directory):
                removed.add(change.node)
        self.journal = left

    def lose_power(self, survivors: Collection[NameChange]) -> None:
        """Keep the durable names and the `survivors` of the journal, which are in its order."""
        for change in survivors:
            change.apply()
        self.journal = []
        self.files = {}
        self.directories = {"": self.root}
        for path, node in _below("", self.root):
            if isinstance(node, Inode):
                self.files[path] = node
            else:
                self.directories[path] = node

    # Questions.

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def list(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        return sorted(
            {
                path[len(prefix) :].split("/")[0]
                for path in (*self.files, *self.directories)
                if path.startswith(prefix) and path != directory
            }
        )


def _below(path: str, directory: Directory) -> Iterator[tuple[str, Inode | Directory]]:
    for name, node in directory.durable.items():
        inside = f"{path}/{name}" if path else name
        yield inside, node
        if isinstance(node, Directory):
            yield from _below(inside, node)


def _from(paths: Collection[str], top: str) -> list[str]:
    """Return this path and the paths below it."""
    return [path for path in paths if path == top or path.startswith(f"{top}/")]
