"""An imitated power loss after a kill -9. It removes bytes and names that the broker has not
synced.

The broker runs under `traced`, and the journal of its file changes shows what is synced. A random
part of the rest stays, as after a loss of the page cache: a log keeps a prefix, zeros of up to a
page may follow this prefix, and a truncation may be undone. A file that was created, renamed,
replaced or unlinked may have its former name and contents. The metadata file belongs to SQLite and
stays unchanged.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.torture.platter import Platter

# Probability that zeros, up to a page, follow the bytes that a file keeps.
ZEROS_PROBABILITY = 0.3
# Probability that an unsynced truncation is undone.
UNCUT_PROBABILITY = 0.5
PAGE = 4096


class PowerLoss:
    """The power losses of one broker. The traced processes have written `journal` and `shadow`.
    `data`: their data directory."""

    def __init__(self, journal: Path, shadow: Path, data: Path, randomness: random.Random) -> None:
        self._journal = journal
        self._shadow = shadow
        self._data = data
        self._randomness = randomness
        self._read = 0
        self._platter = Platter()
        # The numbers of bytes and of name changes that all power losses together removed.
        self.dropped = 0
        self.names = 0

    def strike(self) -> None:
        """Change the dead broker's files as if the power had failed at the moment of the kill."""
        content = self._journal.read_bytes()[self._read :]
        self._read += len(content)
        platter = self._platter
        platter.read(content.decode().splitlines())
        known = {platter.number_of(file) for file in platter.names.files.values()}
        directories = list(platter.names.directories)
        self.names += platter.lose_power(self._randomness)
        for path in list(self._files()):
            if (number := path.stat().st_ino) in known:
                self._take(path, number)
        for directory in directories:
            if directory not in platter.names.directories:
                shutil.rmtree(self._data / directory, ignore_errors=True)
        for directory in platter.names.directories:
            (self._data / directory).mkdir(parents=True, exist_ok=True)
        for name, inode in platter.names.files.items():
            number = platter.number_of(inode)
            (self._data / name).unlink(missing_ok=True)
            os.link(self._shadow / str(number), self._data / name)
            self._spoil(self._data / name, number)

    def _files(self) -> Iterator[Path]:
        for directory, _, names in os.walk(self._data):
            for name in names:
                yield Path(directory) / name

    def _take(self, path: Path, number: int) -> None:
        kept = self._shadow / str(number)
        if not kept.exists():
            os.link(path, kept)
        path.unlink()

    def _spoil(self, path: Path, number: int) -> None:
        """Keep a random part of the unsynced bytes, or undo the first unsynced truncation."""
        cuts = self._platter.cuts.pop(number, [])
        size = path.stat().st_size
        with path.open("r+b") as file:
            if cuts and cuts[0].durable > cuts[0].size and self._happens(UNCUT_PROBABILITY):
                first = cuts[0]
                end = first.end[: first.durable - first.size]
                file.truncate(min(first.size, size))
                file.seek(0, os.SEEK_END)
                file.write(end)
                self.dropped += max(size - first.size, 0)
            else:
                self._drop_end(file.fileno(), size, self._platter.sizes.get(number, 0))
        self._platter.sizes[number] = path.stat().st_size

    def _drop_end(self, descriptor: int, size: int, durable: int) -> None:
        kept = self._randomness.randint(durable, size) if size > durable else size
        self.dropped += size - kept
        if kept < size:
            os.ftruncate(descriptor, kept)
            if self._happens(ZEROS_PROBABILITY):
                os.ftruncate(descriptor, min(size, kept + self._randomness.randint(1, PAGE)))

    def _happens(self, probability: float) -> bool:
        return self._randomness.random() < probability
