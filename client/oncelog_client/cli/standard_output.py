"""Bytes to standard output without holding the event loop: the reader of a pipe, or a terminal that
was stopped, may not take them for long."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import IO, Final

# A pipe that is ready for writing takes this much at once on every system (POSIX: PIPE_BUF).
ALWAYS_TAKEN: Final = 512


class StandardOutput:
    """Writes to `stream`. No other code may write to it meanwhile."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        stream.flush()
        try:
            self._descriptor = stream.fileno()
        except OSError:  # Not a file of the system: it takes everything.
            self._descriptor = -1
        else:
            mode = os.fstat(self._descriptor).st_mode
            if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(self._descriptor)):
                self._descriptor = -1  # A regular file is always ready, and no selector takes it.
        self._own = -1
        self.taken = 0  # bytes of the last write that are on their way to the reader

    def __enter__(self) -> StandardOutput:
        if self._descriptor >= 0:
            # Opened again: O_NONBLOCK on the descriptor itself would be there for all processes
            # that share it, the shell among them.
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            try:
                self._own = os.open(f"/proc/self/fd/{self._descriptor}", flags)
            except OSError:
                self._own = -1  # A socket, or a system without /proc: in small pieces.
        return self

    def __exit__(self, *_: object) -> None:
        if self._own >= 0:
            os.close(self._own)

    async def write(self, data: bytes) -> None:
        """Return when all of `data` is written. If it is cancelled, a part may be written.

        Raises OSError as a write does: BrokenPipeError if the reader has gone.
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
        """Write what the reader takes at once, or wait until it takes something."""
        if self._own < 0:
            await _writable(self._descriptor)
            self.taken += os.write(self._descriptor, data[:ALWAYS_TAKEN])
            return
        try:
            self.taken += os.write(self._own, data)
        except BlockingIOError:
            await _writable(self._own)


async def _writable(descriptor: int) -> None:
    """Return when something can be written, or the reader has gone."""
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
