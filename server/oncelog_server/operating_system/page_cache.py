"""The page cache: whether it has bytes of a file, and reads that bring them into it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

# Maximum number of reads at once. They would otherwise take all threads of the executor, and fsyncs
# would wait for them.
PREFETCHES_AT_ONCE: Final = 2
_READ_BYTES: Final = 128 << 10
# The bytes that the system reads ahead at once, by default.
_STRIDE: Final = 128 << 10
# With this flag a read fails if it would wait for the disk (Linux). 0 on other systems.
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


def is_cached(descriptor: int, position: int, size: int) -> bool:
    """Return False if a byte of the range is only on the disk. The last byte and each `_STRIDE`th
    byte stand for all. Return True if the system or the file system cannot say it."""
    if not _NOWAIT:
        return True
    last = position + size - 1
    return _has_byte(descriptor, last) and all(
        _has_byte(descriptor, at) for at in range(position, last, _STRIDE)
    )


def _has_byte(descriptor: int, position: int) -> bool:
    try:
        os.preadv(descriptor, [bytearray(1)], position, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        pass  # The read that follows fails in the same way, or the file system has no such reads.
    return True


class Wanted(NamedTuple):
    """Bytes of the file `path`. They may exceed the file."""

    path: str
    position: int
    size: int


class _Prefetch(NamedTuple):
    new_descriptor: Callable[[], int]
    done: list[Callable[[], None]]


class Prefetches:
    """The prefetches of one disk, in the order of their requests. Requests for the same bytes share
    one read. All methods must be called on the loop's thread."""

    def __init__(
        self, executor: Executor, call_on_loop: Callable[[Callable[[], None]], object]
    ) -> None:
        self._executor = executor
        self._call_on_loop = call_on_loop
        self._pending: dict[Wanted, _Prefetch] = {}
        self._waiting: deque[Wanted] = deque()
        self._running = 0

    def add(
        self, wanted: Wanted, new_descriptor: Callable[[], int], done: Callable[[], None]
    ) -> None:
        """Read bytes as `File.prefetch` does. `new_descriptor` opens the file, and may raise
        OSError."""
        pending = self._pending.get(wanted)
        if pending is not None:
            pending.done.append(done)
            return
        self._pending[wanted] = _Prefetch(new_descriptor, [done])
        self._waiting.append(wanted)
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._running < PREFETCHES_AT_ONCE:
            wanted = self._waiting.popleft()
            self._running += 1
            try:
                descriptor = self._pending[wanted].new_descriptor()
            except OSError:
                self._call_on_loop(partial(self._ended, wanted))
            else:
                self._executor.submit(self._work, wanted, descriptor)

    def _work(self, wanted: Wanted, descriptor: int) -> None:
        """Runs in the executor."""
        try:
            _read(descriptor, wanted.position, wanted.size)
        finally:
            os.close(descriptor)
            self._call_on_loop(partial(self._ended, wanted))

    def _ended(self, wanted: Wanted) -> None:
        self._running -= 1
        prefetch = self._pending.pop(wanted)
        self._begin()
        for done in prefetch.done:
            # By itself, so that a failure of one does not keep the others waiting.
            self._call_on_loop(done)


def _read(descriptor: int, position: int, size: int) -> None:
    end = position + size
    buffer = bytearray(min(size, _READ_BYTES))
    with suppress(OSError):
        # The disk then gets large requests, and not one after the other.
        os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_WILLNEED)
        while position < end:
            count = os.preadv(descriptor, [buffer], position)
            if not count:
                break
            position += count
