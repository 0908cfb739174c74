"""Names of files and directories, as a process sees them and as a power loss leaves them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Inode:
    """One file's bytes: `data` in the page cache, and `durable` on the platter. `unsynced`:
    the writes in between, in order, as (position, bytes), or (size, None) for a truncation.
    `changes` counts all changes, `synced` the changes on the platter."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    changes: int = 0
    synced: int = 0


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of a name. `kind`: create, mkdir, rename or unlink. `target`: the new name of a
    rename. `inode`: the created file."""

    kind: str
    path: str
    target: str = ""
    inode: Inode | None = None

    @property
    def directories(self) -> tuple[str, ...]:
        """Return the directories to sync to make the change durable."""
        directory = parent(self.path)
        return (directory, parent(self.target)) if self.kind == "rename" else (directory,)

    def below(self, source: str, target: str) -> NameChange:
        """Return the same change after a rename of directory `source` to `target`."""
        inside = f"{source}/"
        # Return early for the many changes elsewhere: a rename of a file calls this for each of
        # them.
        if not (self.path.startswith(inside) or self.target.startswith(inside)):
            return self

        def moved(path: str) -> str:
            return target + path[len(source) :] if path.startswith(inside) else path

        return NameChange(self.kind, moved(self.path), moved(self.target), self.inode)


def parent(path: str) -> str:
    return path.rpartition("/")[0]


class Namespace:
    """Files by path, and directories. The root is "". Both are dictionaries, which keep the order
    of insertion."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}
        self.directories: dict[str, None] = {"": None}

    def copy(self) -> Namespace:
        other = Namespace()
        other.files = dict(self.files)
        other.directories = dict(self.directories)
        return other

    def apply(self, change: NameChange) -> None:
        """Apply a change. Skip a change that does not fit, because an earlier change may have been
        lost."""
        match change.kind:
            case "create":
                if change.inode is not None and parent(change.path) in self.directories:
                    self.files[change.path] = change.inode
            case "mkdir":
                self.directories[change.path] = None
            case "unlink":
                self._unlink(change.path)
            case "rename":
                self._rename(change.path, change.target)

    def _unlink(self, path: str) -> None:
        self.files.pop(path, None)
        for below in [file for file in self.files if file.startswith(f"{path}/")]:
            del self.files[below]
        for below in [
            directory for directory in self.directories if directory.startswith(f"{path}/")
        ]:
            del self.directories[below]
        self.directories.pop(path, None)

    def _rename(self, source: str, target: str) -> None:
        inode = self.files.pop(source, None)
        if inode is not None:
            self.files[target] = inode
            return
        if source not in self.directories:
            return
        for path in [file for file in self.files if file.startswith(f"{source}/")]:
            self.files[target + path[len(source) :]] = self.files.pop(path)
        below = [
            directory
            for directory in self.directories
            if directory == source or directory.startswith(f"{source}/")
        ]
        for path in below:
            del self.directories[path]
            self.directories[target + path[len(source) :]] = None

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
