"""Writes to standard output without blocking the event loop. The reader of a pipe, or a stopped
terminal, may read nothing for long, and a blocking write would stop the loop meanwhile."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import IO, Final

# A pipe that is ready for writing accepts this many bytes at once on every system (POSIX:
# PIPE_BUF).
ALWAYS_TAKEN: Final = 512


class StandardOutput:
    """Writes to `stream`. No other code may write to `stream` meanwhile."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._may_block = False  # A regular file is always ready, and selectors refuse it.
        stream.flush()
        try:
            self._descriptor = stream.fileno()
        except OSError:  # a stream in memory, which accepts everything
            self._descriptor = -1
        else:
            mode = os.fstat(self._descriptor).st_mode
            self._may_block = (
                stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(self._descriptor)
            )
        self._own = -1
        self.taken = 0  # bytes of the last write that were accepted so far

    def __enter__(self) -> StandardOutput:
        if self._may_block:
            # The file is opened again, because O_NONBLOCK on the descriptor itself would apply to
            # all processes that share the descriptor, such as the shell.
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            try:
                self._own = os.open(f"/proc/self/fd/{self._descriptor}", flags)
            except OSError:
                self._own = -1  # for a socket, or a system without /proc: write small pieces
        return self

    def __exit__(self, *_: object) -> None:
        if self._own >= 0:
            os.close(self._own)

    async def write(self, data: bytes) -> None:
        """Return when all of `data` is written. If the call is cancelled or fails, the first
        `taken` bytes have been written.

        Raises OSError as a write does, or BrokenPipeError if the reader has ended.
        """
        self.taken = 0
        if self._descriptor < 0:
            self._stream.write(data)
            self._stream.flush()
            self.taken = len(data)
            return
        view = memoryview(data)
        while self.taken < len(data):
            await self._some(view[self.taken :])

    async def _some(self, data: memoryview) -> None:
        """Write what the reader accepts at once, or wait until it accepts something. A full disk
        may accept a part."""
        if not self._may_block:
            self.taken += os.write(self._descriptor, data)
            return
        if self._own < 0:
            await _writable(self._descriptor)
            self.taken += os.write(self._descriptor, data[:ALWAYS_TAKEN])
            return
        try:
            self.taken += os.write(self._own, data)
        except BlockingIOError:
            await _writable(self._own)


async def _writable(descriptor: int) -> None:
    """Return when a write is possible, or the reader has ended."""
    loop = asyncio.get_running_loop()
    writable: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not writable.done():
            writable.set_result(None)

    loop.add_writer(descriptor, ready)
    try:
        await writable
    finally:
        loop.remove_writer(descriptor)
