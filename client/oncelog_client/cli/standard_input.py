"""Reads lines of standard input as they come in. No thread is used, because a read in a thread
cannot be cancelled, and disturbs the shutdown of the interpreter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import IO, Final

from oncelog_client.cli.failures import Failed

CHUNK: Final = 1 << 20


async def lines_of(stream: IO[bytes], stop: asyncio.Event, longest: int) -> AsyncIterator[bytes]:
    """Yield lines without their ends until the end of the input, or until `stop` is set.

    A last line without a line end is yielded too, unless `stop` is set. Raises Failed if more than
    `longest` bytes were read without a line end, or if the input cannot be read. A longer line may
    be yielded if its end was read together with its last bytes.
    """
    rest = b""
    async for chunk in _chunks(stream, stop):
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > longest:
            raise Failed(
                f"a line of standard input is longer than {longest} bytes (max.request.size)"
            )
    if rest and not stop.is_set():
        yield rest


async def _chunks(stream: IO[bytes], stop: asyncio.Event) -> AsyncIterator[bytes]:
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream in memory, which has all lines already
        descriptor = -1
    while not stop.is_set():
        if descriptor >= 0:
            await _readable(descriptor, stop)
            if stop.is_set():
                return
            try:
                chunk = os.read(descriptor, CHUNK)
            except OSError as error:
                raise Failed(f"cannot read standard input: {error.strerror}") from error
        else:
            chunk = stream.read(CHUNK)
        if not chunk:
            return
        yield chunk
        await asyncio.sleep(0)


async def _readable(descriptor: int, stop: asyncio.Event) -> None:
    """Return when a read would not block, or `stop` is set."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not readable.done():
            readable.set_result(None)

    try:
        loop.add_reader(descriptor, ready)
    except PermissionError:
        return  # A regular file is always readable, and selectors refuse it.
    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(lambda _: ready())
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
        stopping.cancel()
