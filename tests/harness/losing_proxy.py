"""A TCP proxy before a broker. It drops the responses that a test selects."""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType

from oncelog_protocol.apis import ApiKey


class Proxy:
    """Forwards `port` to `target`. A lost response means that the broker has served the request,
    and that the connection breaks before the client gets the response."""

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # For each API, the number of next responses to lose.
        self.to_lose: dict[ApiKey, int] = {}
        self.lost = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            broker_reader, broker_writer = await asyncio.open_connection(*self._target)
            try:
                await self._forward(reader, writer, broker_reader, broker_writer)
            finally:
                broker_writer.close()
        except (OSError, asyncio.CancelledError):
            # This is the server's own task, so no code would handle its exception.
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        broker_reader: asyncio.StreamReader,
        broker_writer: asyncio.StreamWriter,
    ) -> None:
        losing = asyncio.Event()

        async def requests() -> None:
            while True:
                head = await reader.readexactly(6)
                size, key = struct.unpack(">ih", head)
                rest = await reader.readexactly(size - 2)
                left = self.to_lose.get(ApiKey(key), 0)
                if left:
                    self.to_lose[ApiKey(key)] = left - 1
                    losing.set()
                broker_writer.write(head + rest)

        async def answers() -> None:
            while data := await broker_reader.read(1 << 16):
                if losing.is_set():
                    self.lost += 1
                    return
                writer.write(data)

        pumps = {asyncio.ensure_future(requests()), asyncio.ensure_future(answers())}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
