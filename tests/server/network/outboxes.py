"""Outboxes on real sockets, and files on the disk, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from oncelog_server.clock import SystemClock
from oncelog_server.network.outbox import Outbox
from oncelog_server.network.spin import Spin
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.storage.files import File

DEADLINE_S = 60


class Sender(asyncio.Protocol):
    def __init__(self) -> None:
        self.outbox: Outbox | None = None
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        loop = asyncio.get_running_loop()
        # uvloop's transports are not subclasses of asyncio's.
        self.outbox = Outbox(
            cast(asyncio.Transport, transport),
            loop,
            Turn(loop, Spin(loop, SystemClock(), 0)),
            Writables(loop),
            self,
        )
        self.ready.set()

    def hold_requests(self) -> None:
        self.held = True

    def release_requests(self) -> None:
        self.held = False

    def pause_writing(self) -> None:
        assert self.outbox is not None
        self.outbox.block()

    def resume_writing(self) -> None:
        assert self.outbox is not None
        self.outbox.unblock()

    def connection_lost(self, error: Exception | None) -> None:
        if self.outbox is not None:
            self.outbox.close()
        self.lost.set()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Outbox, asyncio.StreamReader]]:
    sender = Sender()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: sender, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await sender.ready.wait()
    assert sender.outbox is not None
    try:
        yield sender.outbox, reader
    finally:
        # If the outbox has unsent bytes, it notices the end only if the peer aborts the connection.
        writer.transport.abort()
        server.close()
        async with asyncio.timeout(DEADLINE_S):
            await sender.lost.wait()


@asynccontextmanager
async def file_of(folder: Path, data: bytes) -> AsyncIterator[File]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(folder), executor=executor, call_on_loop=loop.call_soon_threadsafe)
        file = files.open("segment", create=True)
        file.append(data)
        yield file
        files.close()
