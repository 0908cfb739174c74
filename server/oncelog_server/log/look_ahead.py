"""Bytes that a walk over a log file needs next, and that may be only on the disk."""

from __future__ import annotations

from typing import Final

from oncelog_server.log.results import FileRange
from oncelog_server.storage.files import File

# The least number of bytes that are looked for at once: the headers of many batches.
LOOK_AHEAD_BYTES: Final = 64 << 10


class LookAhead:
    """A walk from lower to higher positions. Bytes that were looked for are not looked for again:
    with too little memory for the page cache, the walk would wait forever."""

    __slots__ = ("_end", "_file")

    def __init__(self, file: File) -> None:
        self._file = file
        self._end = 0

    def cold(self, position: int, size: int) -> FileRange | None:
        """Return bytes that a read of `size` bytes at `position` would wait for. Return None if
        there are none. Raises StorageError."""
        length = min(max(size, LOOK_AHEAD_BYTES), self._file.size - position)
        if position + size <= self._end or length <= 0:
            return None
        self._end = position + length
        ahead = FileRange(self._file, position, length)
        return None if ahead.is_cached() else ahead
