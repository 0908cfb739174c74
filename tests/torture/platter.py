"""The certain and the possible contents of the disk, computed from the journal of a traced broker.
They cover names as well as bytes. By POSIX's rules, a sync of the directory makes a name durable,
and a sync of the file makes its bytes durable."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.simulation.namespace import Directory, Inode, NameChange, Namespace

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
        # For each sync in progress, by descriptor: the directories and the name changes that were
        # not durable when it began.
        self._syncing: dict[int, tuple[dict[str, Directory], set[NameChange]]] = {}
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
                self._numbers[self.names.create(path)] = number
            case {"mkdir": path}:
                self.names.make_directory(path)
            case {"rename": [source, target]}:
                self.names.rename(source, target)
            case {"unlink": path}:
                self.names.unlink(path)
            case {"begin": descriptor}:
                self._syncing[descriptor] = (
                    dict(self.names.directories),
                    set(self.names.journal),
                )
            case {"names": path, "descriptor": descriptor}:
                directories, begun = self._syncing.pop(descriptor)
                if (directory := directories.get(path)) is not None:
                    self.names.sync(directory, begun)
            case {"synced": [number, size]}:
                self.sizes[number] = size
                self.cuts.pop(number, None)
            case {"cut": [number, size, end]}:
                durable = self.sizes.get(number, 0)
                cut = Cut(size, bytes.fromhex(end), durable)
                self.cuts.setdefault(number, []).append(cut)
                self.sizes[number] = min(durable, size)

    def lose_power(self, randomness: random.Random) -> int:
        """Set `names` to the names after a power loss. Return the number of lost name changes."""
        journal = self.names.journal
        if randomness.random() < ORDERED_PROBABILITY:
            survivors = journal[: randomness.randint(0, len(journal))]
        else:
            survivors = [change for change in journal if randomness.random() < 0.5]
        self.names.lose_power(survivors)
        self._syncing.clear()
        return len(journal) - len(survivors)
