"""The wait of one connection for bytes of its response that are not in the page cache.

A read from the disk on the event loop would delay all other clients: by 10 ms for each megabyte on
a disk that reads 100 MB/s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from oncelog_server.log.results import FileRange
from oncelog_server.storage.files import File

# The bytes that are looked for, and read if they are missing, in one step. A response of 1 MiB is
# one step, and a step has whole slices of responses over TLS (`outbox.SLICE_BYTES`).
STEP_BYTES: Final = 10 * (112 << 10)


class DiskWait:
    """Bytes of one file at a time are known to be in the page cache: from `_start` to `_end`."""

    __slots__ = ("_end", "_file", "_is_waiting", "_start")

    def __init__(self) -> None:
        self._file: File | None = None
        self._start = self._end = 0
        self._is_waiting = False

    def ready_bytes(self, file: File, position: int, size: int, resume: Callable[[], None]) -> int:
        """Return the number of bytes from `position` on, at most `size`, that a read gets without a
        wait for the disk. If it is 0, `resume` is called when there are some. Raises
        StorageError."""
        if self._is_waiting:
            return 0
        if file is not self._file or not self._start <= position < self._end:
            step = FileRange(file, position, min(size, STEP_BYTES))
            if not step.is_cached():
                self._is_waiting = True
                step.prefetch(partial(self._arrived, step, resume))
                return 0
            self._know(step)
        return min(size, self._end - position)

    def _know(self, known: FileRange) -> None:
        self._file, self._start = known.file, known.position
        self._end = known.position + known.length

    def _arrived(self, step: FileRange, resume: Callable[[], None]) -> None:
        # The bytes are not looked for again: with too little memory for the page cache, the
        # connection would wait forever.
        self._is_waiting = False
        self._know(step)
        resume()
