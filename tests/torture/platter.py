"""The certain and the possible contents of the disk, computed from the journal of a traced broker.
They cover names as well as bytes. By POSIX's rules, a sync of the directory makes a name durable,
and a sync of the file makes its bytes durable."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.simulation.namespace import Inode, NameChange, Namespace

# Probability that the disk has a journaling file system, which loses only the newest name changes.
# Other file systems may lose any name change.
ORDERED_PROBABILITY = 0.5


class Cut(NamedTuple):
    """A truncation of a file to `size`. `durable`: the number of bytes that were on disk before.
    `end`: the bytes that were cut off."""

    size: int
    end: bytes
    durable: int


class Platter:
    """The disk. `sizes`: by inode, the number of bytes that are certainly durable. `cuts`: the
    truncations since the file's last sync. `names`: the files as the broker last saw them."""

    def __init__(self) -> None:
        self.names = Namespace()
        self.sizes: dict[int, int] = {}
        self.cuts: dict[int, list[Cut]] = {}
        self._durable = Namespace()
        self._pending: list[NameChange] = []
        # Changes that are synced with their directory. The directory's own name may not be durable
        # yet.
        self._synced: set[NameChange] = set()
        self._syncing: dict[int, set[NameChange]] = {}
        self._numbers: dict[Inode, int] = {}

    def number_of(self, inode: Inode) -> int:
        """Return the number that the file system has given the inode."""
        return self._numbers[inode]

    def read(self, lines: Iterable[str]) -> None:
        """Read the next lines of the journal. Skip an incomplete last line, which a kill may
        leave."""
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
        """Make synced changes durable if the names of their directories are durable."""
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
