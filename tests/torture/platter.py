"""What is on disk for certain, and what may be, by the journal of a traced broker: names as well as
bytes. POSIX's rules: names last once their directory was synced, bytes once their file was."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.simulation.namespace import Inode, NameChange, Namespace

# A journaling file system loses the newest changes of names, any other file system any of them.
ORDERED_PROBABILITY = 0.5


class Cut(NamedTuple):
    """A file was made shorter, and had `durable` bytes on disk then; `end` is what was cut off."""

    size: int
    end: bytes
    durable: int


class Platter:
    """`sizes` are the bytes on disk for certain, by inode; `cuts` those since the file's last sync.
    `names` are the files as the broker saw them last."""

    def __init__(self) -> None:
        self.names = Namespace()
        self.sizes: dict[int, int] = {}
        self.cuts: dict[int, list[Cut]] = {}
        self._durable = Namespace()
        self._pending: list[NameChange] = []
        # Synced with their directory, which itself may have no name that lasts.
        self._synced: set[NameChange] = set()
        self._syncing: dict[int, set[NameChange]] = {}
        self._numbers: dict[Inode, int] = {}

    def number_of(self, inode: Inode) -> int:
        """The real one's number."""
        return self._numbers[inode]

    def read(self, lines: Iterable[str]) -> None:
        """Read the journal's next lines. Half a line, the last of a killed process, is skipped."""
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
        """What is synced lasts as soon as the names of its directories do."""
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
        """Set `names` to those after a power loss, and return how many changes of names
        were lost."""
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
