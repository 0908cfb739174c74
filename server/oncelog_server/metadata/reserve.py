"""`oncelog-metadata.reserve`: disk space that only the metadata store uses.

The store must write the deletion of a topic before the deletion frees space. On a full disk the
store shortens this file part by part until the transaction fits. When there is room again, the
store extends the file.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from oncelog_server.operating_system.file_modes import FILE_MODE

# The largest transaction has MAX_OPERATIONS operations (`cluster/store.py`). It changes about one
# page of 4 KiB for each operation, and a few more.
RESERVE_BYTES: Final = 1 << 20
# Number of bytes that one release frees. A producer may fill these bytes before the store does. The
# store then releases another part.
PART_BYTES: Final = RESERVE_BYTES // 4
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OFFERED: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Reserve:
    """The file at `path`. Only the store's thread uses the object.

    `failure` is the error of the last `refill`. None means that the last `refill` succeeded, or
    that the disk had no room.
    """

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
        """Release one part of the file. Return False if nothing is left."""
        if not self._bytes:
            return False
        left = max(0, self._bytes - PART_BYTES)
        os.truncate(self._path, left)
        self._bytes = left
        return True

    def refill(self) -> bool:
        """Extend the file to its full size. Return False if the caller must retry later."""
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
        """Allocate the missing bytes. After an OSError the file may have any length."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, FILE_MODE)
        try:
            if not _preallocated(descriptor, self._bytes):
                os.lseek(descriptor, self._bytes, os.SEEK_SET)
                rest = RESERVE_BYTES - self._bytes
                while rest > 0:
                    rest -= os.write(descriptor, bytes(min(rest, PART_BYTES)))
        finally:
            os.close(descriptor)


def _preallocated(descriptor: int, position: int) -> bool:
    """Preallocate from `position` on. Return False if the system or the file system does not
    support this.

    Raises OSError.
    """
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
