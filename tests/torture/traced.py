"""`python -m tests.torture.traced JOURNAL SHADOW DATA serve ...`: a broker that writes a journal of
its file changes, as lines of JSON. The line of a new directory, a rename, a removal or a truncation
comes before the change, the line of a new file after it. A sync has a line before it and a line
after it.

SHADOW keeps links to replaced and unlinked files, and the line of a truncation has the bytes that
are cut off. So a simulated power loss can restore the files and the bytes. Files are identified by
inode, and paths are relative to DATA. The journal does not have file changes by C libraries (the
metadata's SQLite) or by other processes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

# The journal has only this many bytes of a longer truncation, and a power loss restores at most
# these.
LONGEST_CUT: Final = 1 << 20


class Journal:
    """The journal. Each line is written whole, and lines are in the order of the changes, whichever
    thread makes a change."""

    def __init__(self, path: str, shadow: str, data: str) -> None:
        self._shadow = Path(shadow)
        self._data = os.path.realpath(data)
        self._shadow.mkdir(exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, **line: Any) -> None:
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def relative(self, path: Any, directory: int | None = None) -> str | None:
        """Return the path below the data directory, "" for the directory itself, or None for any
        other path."""
        name = os.fsdecode(path)
        if directory is not None and directory >= 0:
            name = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), name)
        parent, last = os.path.split(os.path.abspath(name))
        full = os.path.join(os.path.realpath(parent), last)
        if full == self._data:
            return ""
        prefix = f"{self._data}/"
        return full.removeprefix(prefix) if full.startswith(prefix) else None

    def keep(self, path: str) -> None:
        """Keep another link to a file that is about to lose this name."""
        full = os.path.join(self._data, path)
        try:
            inode = os.lstat(full).st_ino
            os.link(full, self._shadow / str(inode), follow_symlinks=False)
        except (FileNotFoundError, FileExistsError, PermissionError):
            pass  # the path is missing, linked already, or a directory

    # --- changes that the interpreter's audit events show

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record the change that an audit event of the interpreter announces."""
        if event == "os.rename":
            source, target, source_directory, target_directory = arguments
            old, new = (
                self.relative(source, source_directory),
                self.relative(target, target_directory),
            )
            if old is not None and new is not None:
                self.keep(new)
                self.write(rename=[old, new])
        elif event in ("os.remove", "os.rmdir"):
            path = self.relative(*arguments)
            if path is not None:
                self.keep(path)
                self.write(unlink=path)
        elif event == "os.mkdir":
            path = self.relative(arguments[0], arguments[2])
            if path is not None and not os.path.isdir(os.path.join(self._data, path)):
                self.write(mkdir=path)

    # --- replaced functions of `os`

    def watch(self) -> None:
        """Start to record the file changes of this process."""
        system_open, system_sync, system_cut = os.open, os.fsync, os.ftruncate

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            is_new = flags & os.O_CREAT and not os.path.lexists(path)
            descriptor = system_open(path, flags, mode, dir_fd=dir_fd)
            name = self.relative(path, dir_fd) if is_new else None
            if name is not None:
                self.write(create=[name, os.fstat(descriptor).st_ino])
            return descriptor

        def synced(descriptor: int) -> None:
            status = os.fstat(descriptor)
            path = self.relative(os.readlink(f"/proc/self/fd/{descriptor}"))
            is_directory = os.path.isdir(f"/proc/self/fd/{descriptor}")
            self.write(begin=descriptor)
            system_sync(descriptor)
            if is_directory and path is not None:
                self.write(names=path, descriptor=descriptor)
            elif not is_directory:
                self.write(synced=[status.st_ino, status.st_size])

        def cut(descriptor: int, size: int) -> None:
            status = os.fstat(descriptor)
            gone = min(max(status.st_size - size, 0), LONGEST_CUT)
            self.write(cut=[status.st_ino, size, os.pread(descriptor, gone, size).hex()])
            system_cut(descriptor, size)

        watched = {"open": opened, "fsync": synced, "fdatasync": synced, "ftruncate": cut}
        for name, function in watched.items():
            setattr(os, name, function)
        sys.addaudithook(self.hear)


def main() -> None:
    journal, shadow, data, *arguments = sys.argv[1:]
    Journal(journal, shadow, data).watch()
    from oncelog_server.__main__ import main as broker

    broker(arguments, prog_name="oncelog_server")


if __name__ == "__main__":
    main()
