"""`oncelog-metadata.reserve`: space that the metadata store keeps on its disk.

A deletion has to be written before it frees anything. On a full disk the store shortens this file
part by part until the transaction fits, and lets it grow again when there is room.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# The largest transaction (MAX_OPERATIONS) changes a page of 4 KiB for each operation, and some.
RESERVE_BYTES: Final = 1 << 20
# Given up at a time: what a producer takes of it first leaves other parts.
PART_BYTES: Final = RESERVE_BYTES // 4
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OFFERED: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Reserve:
    """The file at `path`; used from the store's thread alone. `failure` is why it could not be
    made, other than that there was no room."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0
        self.failure: OSError | None = None
        with suppress(FileNotFoundError):
            self._bytes = path.stat().st_size

    @property
    def whole(self) -> bool:
        return self._bytes >= RESERVE_BYTES

    def give(self) -> bool:
        """Give up one part. False where nothing is left."""
        if not self._bytes:
            return False
        left = max(0, self._bytes - PART_BYTES)
        os.truncate(self._path, left)
        self._bytes = left
        return True

    def refill(self) -> bool:
        """Take what is missing from the disk. False where it has no room: try again later."""
        if self.whole:
            return True
        self.failure = None
        try:
            self._allocate()
        except OSError as error:
            with suppress(OSError):
                os.truncate(self._path, self._bytes)
            if error.errno not in _NO_ROOM:
                self.failure = error
            return False
        self._bytes = RESERVE_BYTES
        return True

    def _allocate(self) -> None:
        """Raises OSError; the file may then have any length."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            if not _preallocated(descriptor, self._bytes):
                os.lseek(descriptor, self._bytes, os.SEEK_SET)
                rest = RESERVE_BYTES - self._bytes
                while rest > 0:
                    rest -= os.write(descriptor, bytes(min(rest, PART_BYTES)))
        finally:
            os.close(descriptor)


def _preallocated(descriptor: int, position: int) -> bool:
    """False where the system or the file system cannot. Raises OSError."""
    allocate = getattr(os, "posix_fallocate", None)
    if allocate is None:
        return False
    try:
        allocate(descriptor, position, RESERVE_BYTES - position)
    except OSError as error:
        if error.errno in _NOT_OFFERED:
            return False
        raise
    return True
