"""A power loss, imitated after a kill -9: what the broker had not synced is taken away again.

What was synced is in the journal that a broker writes for tests (ONCELOG_SYNC_JOURNAL). Of the rest
a random part stays, as a page cache leaves it: a log keeps a prefix, its last pages may be zeros;
files that were never synced may be gone altogether.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

# How often the end of a file has its new size already, and its old content (none) still.
ZEROS_PROBABILITY = 0.3
GONE_PROBABILITY = 0.5
PAGE = 4096


class PowerLoss:
    """`journal` is what the broker's processes wrote, `data` their data directory."""

    def __init__(self, journal: Path, data: Path, chance: random.Random) -> None:
        self._journal = journal
        self._data = data
        self._chance = chance
        # Bytes that were taken away in all power losses.
        self.dropped = 0

    def strike(self) -> None:
        """The broker is dead; make its files those of a machine that lost its power with it."""
        durable = durable_sizes(self._journal.read_text())
        for path in sorted(self._data.glob("*-*/*")):
            if path.is_file():
                self._spoil(path, durable.get(path.relative_to(self._data).as_posix(), -1))

    def _spoil(self, path: Path, durable: int) -> None:
        size = path.stat().st_size
        if durable < 0 and self._chance.random() < GONE_PROBABILITY:
            path.unlink()
            self.dropped += size
            return
        kept = self._chance.randint(max(durable, 0), size) if size > durable else size
        if kept == size:
            return
        self.dropped += size - kept
        with path.open("r+b") as file:
            file.truncate(kept)
            if self._chance.random() < ZEROS_PROBABILITY:
                file.truncate(min(size, kept + self._chance.randint(1, PAGE)))


def durable_sizes(journal: str) -> dict[str, int]:
    """How much of every file is on disk for certain, by the journal's lines; half a line, the last
    one of a killed process, says nothing."""
    sizes: dict[str, int] = {}
    for line in journal.splitlines():
        try:
            told = json.loads(line)
        except json.JSONDecodeError:
            continue
        sizes.update(told.get("synced", {}))
        if "cut" in told:
            path, size = told["cut"]
            sizes[path] = min(sizes.get(path, 0), size)
        if "moved" in told:
            source, target = told["moved"]
            sizes = {_moved(path, source, target): size for path, size in sizes.items()}
    return sizes


def _moved(path: str, source: str, target: str) -> str:
    if path == source:
        return target
    if path.startswith(f"{source}/"):
        return target + path.removeprefix(source)
    return path
