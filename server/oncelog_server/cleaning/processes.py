"""A pass of the cleaner in a separate process. The broker's event loop only writes the new segments
and swaps them in."""

from __future__ import annotations

import asyncio
import sys
from typing import Final, cast

import structlog

from oncelog_server.cleaning.frames import FrameBuffer, frame
from oncelog_server.cleaning.work import PassListener, Starved
from oncelog_server.log.cleaner.job import Chunk, Cleaned, CleanerStats, CleaningJob, Progress
from oncelog_server.log.errors import CorruptLog
from oncelog_server.storage.files import StorageError

log = structlog.get_logger("oncelog.cleaner")

_CHILD: Final = "oncelog_server.cleaning.child"
_INPUT: Final = 0
_OUTPUT: Final = 1


class ProcessWork(asyncio.SubprocessProtocol):
    """A child process for one job. `root` is the data directory."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, root: str, job: CleaningJob, listener: PassListener
    ) -> None:
        self._root = root
        self._job: CleaningJob | None = job
        self._listener = listener
        self._buffer = FrameBuffer()
        self._transport: asyncio.SubprocessTransport | None = None
        self._paused = False
        self._ended = False
        self._lost = False
        self._gone: asyncio.Future[None] = loop.create_future()
        self._starting = loop.create_task(self._start(loop))
        self._starting.add_done_callback(self._started)

    async def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            await loop.subprocess_exec(
                lambda: self, sys.executable, "-m", _CHILD, self._root, stderr=None
            )
        except OSError as error:
            self._fail(StorageError("start", _CHILD, error.strerror or str(error)))

    def _started(self, starting: asyncio.Task[None]) -> None:
        error = None if starting.cancelled() else starting.exception()
        if isinstance(error, Exception) and not self._ended:
            self._fail(error)
        if self._transport is None and not self._gone.done():
            self._gone.set_result(None)

    # --- CleaningWork

    def pause(self) -> None:
        self._paused = True
        self._output().pause_reading()

    def resume(self) -> None:
        if self._paused and not self._ended:
            self._paused = False
            self._output().resume_reading()
            self._deliver()
            self._check_end()

    def cancel(self) -> None:
        self._ended = True
        self._starting.cancel()
        self._close()

    async def gone(self) -> None:
        await self._gone

    # --- the child

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Casts are necessary, because uvloop's transports do not derive from asyncio's classes.
        self._transport = cast(asyncio.SubprocessTransport, transport)
        if self._ended:
            self._close()
            return
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(_INPUT))
        try:
            pipe.write(frame(self._job))
        except Exception as error:
            self._fail(error)
        self._job = None

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        if not self._ended:
            self._buffer.feed(data)
            self._deliver()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _OUTPUT:
            self._lost = True
            self._check_end()

    def _check_end(self) -> None:
        if self._lost and not self._ended and not self._paused:
            self._fail(StorageError("read", _CHILD, "the process ended before its job was done"))

    def _deliver(self) -> None:
        while not self._paused and not self._ended:
            message = self._buffer.next()
            if message is None:
                return
            if isinstance(message, (Progress, Chunk, Cleaned)):
                self._listener.on_event(message)
            elif isinstance(message, CleanerStats):
                self._ended = True
                self._close()
                self._listener.on_event(message)
            elif isinstance(message, Starved):
                self._ended = True
                self._close()
                self._listener.on_starved()
            elif isinstance(message, tuple):
                kind, arguments = message
                assert kind in (StorageError, CorruptLog)
                self._fail(kind(*arguments))

    def _fail(self, error: Exception) -> None:
        self._ended = True
        self._close()
        self._listener.on_failure(error)

    def _output(self) -> asyncio.ReadTransport:
        assert self._transport is not None
        return cast(asyncio.ReadTransport, self._transport.get_pipe_transport(_OUTPUT))

    def _close(self) -> None:
        """Close the transport. This closes the pipes, and kills the process if the process still
        runs."""
        if self._transport is not None:
            self._transport.close()
