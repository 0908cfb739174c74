"""A simulated disk that reports the appends of its broker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.disk import SimDisk
from tests.simulation.namespace import Inode


class WatchedDisk(SimDisk):
    """A disk that calls `begins` before each append, and `ends` after it, with the path of the
    file. Each of them may raise Killed."""

    def __init__(self, rng: Random, mix: Callable[[int], None]) -> None:
        super().__init__(rng, mix)
        self.begins: Callable[[str], None] = lambda path: None
        self.ends: Callable[[str], None] = lambda path: None

    def append(self, inode: Inode, path: str, data: bytes) -> None:
        self.begins(path)
        super().append(inode, path, data)
        self.ends(path)
