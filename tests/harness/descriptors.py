"""The descriptors of this process, by the files they belong to. The number of all descriptors is no
measure: threads and garbage that earlier tests have left open and close some at any time."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


def descriptors_of(files: Iterable[os.stat_result]) -> int:
    """Return how many descriptors of this process are open for these files."""
    wanted = {(file.st_dev, file.st_ino) for file in files}
    count = 0
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # closed since it was listed
            found = os.fstat(int(name))
            count += (found.st_dev, found.st_ino) in wanted
    return count


def descriptors_in(folder: Path) -> int:
    """Return how many descriptors of this process are open for a folder and what it holds."""
    return descriptors_of(path.stat() for path in (folder, *folder.rglob("*")))


def own_sockets() -> Iterator[socket.socket]:
    """Yield an object for each socket of this process, valid until the next step. The descriptor
    stays open, and belongs to the object that has opened it."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # closed since it was listed, or no socket
            found = socket.socket(fileno=descriptor)
            try:
                yield found
            finally:
                found.detach()
