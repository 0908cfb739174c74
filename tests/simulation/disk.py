"""A disk that outlives processes. It models its contents after a kill and after a power loss, and
failed operations.

Written data is only in the page cache until its file is synced. A change of a name is only there
until its directory is synced. A power loss keeps some of the unsynced changes, torn and out of
order.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import SNAPSHOT_SUFFIX
from tests.simulation.namespace import Inode, Namespace, parent

NO_SPACE: Final = "No space left on device"
IO_ERROR: Final = "Input/output error"
_MISSING: Final = "No such file or directory"
_SECTORS: Final = (1, 512, 512, 4096)


@dataclass(slots=True)
class DiskWeather:
    """The probability that an operation fails, and the lack of space. The disk may be full for all
    files, or for paths that match `full_for`."""

    append_error: float = 0.0
    read_error: float = 0.0
    sync_error: float = 0.0
    full: bool = False
    full_for: re.Pattern[str] | None = None
    # This many operations on paths that match `full_for` still succeed, so that the disk fills up
    # in the middle of some work.
    room_for: int = 0
    sync_us: tuple[int, int] = (100, 2_000)


@dataclass(slots=True)
class Loss:
    """The treatment of unsynced changes in a power loss. `ordered`: name changes are kept in order,
    as in a journal. `holes`: the probability that a file keeps writes after a lost write."""

    ordered: bool = True
    holes: float = 0.2
    garbage: float = 0.3
    torn: float = 0.5


class Begun(NamedTuple):
    """A sync in progress. It makes durable the data that the file had when the sync began.
    `failures`: the number of failed syncs of the file before."""

    inode: Inode
    changes: int
    data: bytes
    failures: int


@dataclass(slots=True)
class Trap:
    """Kills the process at the `countdown`-th operation with `match` in its name or path."""

    countdown: int
    match: str
    spring: Callable[[], None]
    torn: bool = False


class SimDisk:
    """A simulated disk. The `spring` of a trap raises. Operations raise StorageError as `Files`
    says."""

    def __init__(self, rng: Random, mix: Callable[[int], None] = lambda value: None) -> None:
        self.rng = rng
        self.weather = DiskWeather()
        self.names = Namespace()
        self.failures: Counter[str] = Counter()
        self.trap: Trap | None = None
        # Damaged snapshots that were not written again. The checkers skip them: a broker reads only
        # the newest snapshot of a log, so the damage of older snapshots may stay.
        self.damaged: set[str] = set()
        self.power_losses = 0
        self._mix = mix
        self.operations = 0

    # Changes.

    def step(self, operation: str, path: str) -> Trap | None:
        """Count an operation, and spring the trap if it is due. If the trap must spring in the
        middle of an append, return it instead. Return None in all other cases."""
        self.operations += 1
        self._mix(zlib.crc32(path.encode()) ^ len(operation))
        trap = self.trap
        if trap is None or trap.match not in f"{operation} {path}":
            return None
        trap.countdown -= 1
        if trap.countdown > 0:
            return None
        self.trap = None
        if trap.torn and operation == "append":
            return trap
        trap.spring()
        raise AssertionError("the `spring` of a trap has returned")

    def inode(self, operation: str, path: str) -> Inode:
        found = self.names.files.get(path)
        if found is None:
            raise StorageError(operation, path, _MISSING)
        return found

    def create(self, path: str) -> None:
        self.damaged.discard(path)
        self.step("create", path)
        if parent(path) not in self.names.directories:
            raise StorageError("create", path, _MISSING)
        self.find_room("create", path)
        self._fail_append("create", path)
        self.names.create(path)

    def append(self, inode: Inode, path: str, data: bytes) -> None:
        trap = self.step("append", path)
        if trap is not None:
            data = data[: self.rng.randrange(len(data) + 1)]
        else:
            self.find_room("append", path, size=len(data))
            self._fail_append("append", path)
        inode.unsynced.append((len(inode.data), data))
        inode.changes += 1
        inode.data += data
        if trap is not None:
            trap.spring()

    @property
    def is_full(self) -> bool:
        return self.weather.full or self.weather.full_for is not None

    @property
    def other_failures(self) -> int:
        """Return the number of failed operations, without those of a full disk."""
        return self.failures.total() - self.failures["full"] - self.failures["full for a file"]

    def find_room(self, operation: str, *paths: str, size: int = 0) -> None:
        """Raise StorageError if `full_for` matches one of these paths and `room_for` is used up."""
        full_for = self.weather.full_for
        if full_for is not None and any(map(full_for.search, paths)):
            if self.weather.room_for:
                self.weather.room_for -= 1
                return
            self.failures["full for a file"] += 1
            raise StorageError(operation, paths[0], NO_SPACE, size)

    def _fail_append(self, operation: str, path: str) -> None:
        weather = self.weather
        if weather.full:
            self.failures["full"] += 1
            raise StorageError(operation, path, NO_SPACE)
        if weather.append_error and self.rng.random() < weather.append_error:
            self.failures["append"] += 1
            raise StorageError(operation, path, IO_ERROR)

    def read(self, inode: Inode, path: str, position: int, size: int) -> bytes:
        error = self.weather.read_error
        if error and self.rng.random() < error:
            self.failures["read"] += 1
            raise StorageError("read", path, IO_ERROR)
        return bytes(inode.data[position : position + size])

    def truncate(self, inode: Inode, path: str, size: int) -> None:
        self.step("truncate", path)
        _resize(inode.data, size)
        inode.cuts += 1
        inode.unsynced.append((size, None))
        inode.changes += 1

    def begin_sync(self, inode: Inode) -> Begun:
        return Begun(inode, inode.changes, bytes(inode.data), inode.failures)

    def end_sync(self, begun: Begun) -> bool:
        """End a sync. Writes after its begin are not synced, as POSIX allows. Return False if the
        sync failed. The pages then count as clean. As in Linux, one call gets the error. The other
        syncs of the file in progress succeed, and make nothing durable."""
        inode = begun.inode
        written_since = inode.changes - begun.changes
        if self.weather.sync_error and self.rng.random() < self.weather.sync_error:
            self.failures["sync"] += 1
            inode.failures += 1
            _keep_last(inode.unsynced, written_since)
            return False
        if begun.failures != inode.failures:
            return True
        if begun.changes > inode.synced:  # otherwise a later sync has ended before this sync
            inode.durable, inode.synced = begun.data, begun.changes
            _keep_last(inode.unsynced, written_since)
        return True

    def sync_directory(self, path: str) -> None:
        """Make the names in the directory durable, if there is such a directory."""
        directory = self.names.directories.get(path)
        if directory is not None:
            self.names.sync(directory)

    # What a power loss leaves.

    def lose_power(self, loss: Loss) -> None:
        """Lose the page cache. Durable names and data stay, and some of the rest."""
        self.power_losses += 1
        journal = self.names.journal
        if loss.ordered:
            survivors = journal[: self.rng.randint(0, len(journal))]
        else:
            survivors = [change for change in journal if self.rng.random() < 0.5]
        self.names.lose_power(survivors)
        for path, inode in self.names.files.items():
            if self._lose_data(inode, loss) and path.endswith(SNAPSHOT_SUFFIX):
                self.damaged.add(path)

    def _lose_data(self, inode: Inode, loss: Loss) -> bool:
        """Lose unsynced data. Return True if there was any."""
        if not inode.unsynced and inode.data == inode.durable:
            return False
        rng = self.rng
        image = bytearray(inode.durable)
        kept = inode.unsynced[: rng.randint(0, len(inode.unsynced))]
        if kept and rng.random() < loss.holes:
            kept = [change for change in kept if rng.random() < 0.7]
        for index, (position, data) in enumerate(kept):
            if data is None:
                _resize(image, position)
                continue
            if index == len(kept) - 1 and rng.random() < loss.torn:
                sector = rng.choice(_SECTORS)
                data = data[: rng.randrange(len(data) // sector + 1) * sector]
            if position > len(image):
                image.extend(bytes(position - len(image)))
            image[position : position + len(data)] = data
        if kept and rng.random() < loss.garbage:
            size = rng.randint(1, 600)
            image += bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
        inode.data = image
        _settle(inode)
        return True

    def damage(self, path: str, how: str) -> None:
        """Damage a file in the page cache and on the disk: flip a bit, cut the end, or remove the
        file."""
        inode = self.names.files[path]
        if path.endswith(SNAPSHOT_SUFFIX):
            self.damaged.add(path)
        if how == "remove":
            self.names.unlink(path)
        elif how == "cut":
            _resize(inode.data, self.rng.randrange(len(inode.data) + 1))
        elif inode.data:
            inode.data[self.rng.randrange(len(inode.data))] ^= 1 << self.rng.randrange(8)
        _settle(inode)

    def image(self) -> dict[str, bytes]:
        """Return all files as a process finds them, by path."""
        return {path: bytes(inode.data) for path, inode in sorted(self.names.files.items())}


def _keep_last(unsynced: list[tuple[int, bytes | None]], count: int) -> None:
    del unsynced[: max(len(unsynced) - count, 0)]


def _settle(inode: Inode) -> None:
    """Make the cached data durable. A sync in progress then has no further effect."""
    inode.durable, inode.synced = bytes(inode.data), inode.changes
    inode.unsynced.clear()


def _resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))
