"""The certain and the possible contents of the disk, computed from the journal of a traced broker:
names as well as bytes. By POSIX's rules a name is durable once its directory was synced, bytes once
their file was."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.simulation.namespace import Inode, NameChange, Namespace

# A journaling file system loses the newest name changes, any other file system loses any of them.
ORDERED_PROBABILITY = 0.5


class Cut(NamedTuple):
    """A file was shortened to `size`. `durable` bytes of it were on disk before; `end` is the part
    that was cut off."""

    size: int
    end: bytes
    durable: int


class Platter:
    """The disk. `sizes` are the certainly durable bytes by inode, `cuts` the cuts since the file's
    last sync, `names` the files as the broker last saw them."""

    def __init__(self) -> None:
        self.names = Namespace()
        self.sizes: dict[int, int] = {}
        self.cuts: dict[int, list[Cut]] = {}
        self._durable = Namespace()
        self._pending: list[NameChange] = []
        # Synced with their directory, while the name of the directory itself may not be durable
        # yet.
        self._synced: set[NameChange] = set()
        self._syncing: dict[int, set[NameChange]] = {}
        self._numbers: dict[Inode, int] = {}

    def number_of(self, inode: Inode) -> int:
        """Return the real inode number."""
        return self._numbers[inode]

    def read(self, lines: Iterable[str]) -> None:
        """Read the journal's next lines. Half a last line, left by a kill, is skipped."""
        for line in lines:
            try:
                call = json.loads(line)
            except json.JSONDecodeError:
                continue
            self._note(call)

    def _note(self, call: dict[str, Any]) -> None:
        match call:
            case {"create": [path, number]}:
                inode = Inode()
                self._numbers[inode] = number
                self._change(NameChange("create", path, inode=inode))
            case {"mkdir": path}:
                self._change(NameChange("mkdir", path))
            case {"rename": [source, target]}:
                self._change(NameChange("rename", source, target))
            case {"unlink": path}:
                self._change(NameChange("unlink", path))
            case {"begin": descriptor}:
                self._syncing[descriptor] = set(self._pending)
            case {"names": directory, "descriptor": descriptor}:
                self._sync_names(directory, self._syncing.pop(descriptor))
            case {"synced": [number, size]}:
                self.sizes[number] = size
                self.cuts.pop(number, None)
            case {"cut": [number, size, end]}:
                durable = self.sizes.get(number, 0)
                cut = Cut(size, bytes.fromhex(end), durable)
                self.cuts.setdefault(number, []).append(cut)
                self.sizes[number] = min(durable, size)

    def _change(self, change: NameChange) -> None:
        self.names.apply(change)
        self._pending.append(change)

    def _sync_names(self, directory: str, begun: set[NameChange]) -> None:
        self._synced |= {change for change in begun if directory in change.directories}
        self._land()

    def _land(self) -> None:
        """Make synced changes durable if the names of their directories are."""
        left = []
        for change in self._pending:
            lasts = all(directory in self._durable.directories for directory in change.directories)
            if change in self._synced and lasts:
                self._durable.apply(change)
                self._synced.discard(change)
            else:
                left.append(change)
        self._pending = left

    def lose_power(self, randomness: random.Random) -> int:
        """Set `names` to the names after a power loss. Return the number of lost name changes."""
        pending = [change for change in self._pending if change not in self._synced]
        if randomness.random() < ORDERED_PROBABILITY:
            survivors = set(pending[: randomness.randint(0, len(pending))])
        else:
            survivors = {change for change in pending if randomness.random() < 0.5}
        self._synced |= survivors
        self._land()
        lost, self._pending = len(self._pending), []
        self._synced.clear()
        self._syncing.clear()
        self.names = self._durable.copy()
        return lost
