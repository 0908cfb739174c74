"""The proxy: a thread with an event loop, between clients and one broker."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from oncelog.testing.proxy.fates import DEADLINE_S, Fate
from oncelog.testing.proxy.frame import (
    Direction,
    Frame,
    correlation_id_of,
    length_of,
    request_frame,
    response_frame,
)
from oncelog_protocol.apis import ApiKey, api_named

_ACCEPTING_TURNS = 5
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with 0 s: close sends a reset


@dataclass(slots=True)
class _Rule:
    """The fate of the `nth` matching frame after the creation of the rule."""

    api: ApiKey | None
    client_id: str | None
    direction: Direction
    nth: int
    fate: Fate

    def fits(self, frame: Frame) -> bool:
        return (
            frame.direction is self.direction
            and self.api in (None, frame.api)
            and self.client_id in (None, frame.client_id)
        )


class Proxy:
    """Clients connect to `address`. `target` is the broker's address and may change while the
    broker restarts.

    Real clients follow the addresses that a broker advertises. Give the broker
    `advertised.listeners` with the proxy's address.
    """

    def __init__(self, target: str = "") -> None:
        self.target = target
        self.frames: list[Frame] = []
        self._rules: list[_Rule] = []
        self._decide: Callable[[Frame], Fate | None] = lambda frame: None
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._count = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def on(
        self,
        api: ApiKey | str | None,
        fate: Fate,
        *,
        direction: Direction = Direction.REQUEST,
        client_id: str | None = None,
        nth: int = 1,
    ) -> None:
        """Apply this fate to the `nth` matching frame from now on. All other frames pass. `api` is
        a key or a name such as `EndTxn`; None matches each API. Raises ValueError for an unknown
        name."""
        key = api_named(api) if isinstance(api, str) else api
        with self._lock:
            self._rules.append(_Rule(key, client_id, direction, nth, fate))

    def always(self, decide: Callable[[Frame], Fate | None]) -> None:
        """Let `decide` choose the fate of frames without a rule. The proxy's thread calls it."""
        self._decide = decide

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(DEADLINE_S)
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._accepted, sock=self._listening)
        )
        self._loop.run_forever()

    async def _stop(self) -> None:
        # Accept no further connection. A recently accepted connection comes to `_accepted` within
        # three turns of the loop, and is then closed with the other connections. If the server were
        # closed before, asyncio would drop the connection without closing it.
        self._loop.remove_reader(self._listening)
        for _ in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        self._server.close()
        # A task that is cancelled before its start never runs, so this loop closes its connection.
        for task, writer in self._connections.items():
            task.cancel()
            writer.close()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self._count = self._count, self._count + 1
        try:
            host, port = self.target.rsplit(":", 1)
            upstream = await asyncio.open_connection(host, int(port))
            await _Connection(self, number, (reader, writer), upstream).run()
        except (OSError, asyncio.CancelledError):
            pass  # the broker is down or the proxy ends; no code needs the result of this task
        finally:
            await _close(writer)

    def fate_of(self, frame: Frame) -> Fate | None:
        """Record the frame. Return the fate of the first rule with this frame as its `nth` match.
        Without such a rule, return the result of `decide`."""
        with self._lock:
            self.frames.append(frame)
            found: Fate | None = None
            for rule in list(self._rules):
                if rule.fits(frame):
                    rule.nth -= 1
                    if rule.nth == 0 and found is None:
                        self._rules.remove(rule)
                        found = rule.fate
        found = found or self._decide(frame)
        if found is not None:
            found.frame, found.loop = frame, self._loop
            found.there.set()
        return found


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """A client's connection, and the connection to the broker that carries its frames."""

    def __init__(self, proxy: Proxy, number: int, client: Streams, broker: Streams) -> None:
        self._proxy = proxy
        self._number = number
        self._client = client
        self._broker = broker
        self._asked: dict[int, Frame] = {}
        self._late: dict[asyncio.Task[None], None] = {}

    async def run(self) -> None:
        """Serve until one side has ended and every held frame has reached the other side."""
        requests = asyncio.ensure_future(self._requests())
        responses = asyncio.ensure_future(self._responses())
        try:
            # The broker gets all requests of a client, even those that the proxy still holds when
            # the client closes its connection.
            await asyncio.wait({requests, responses}, return_when=asyncio.FIRST_COMPLETED)
            if self._late:
                await asyncio.wait(set(self._late))
        finally:
            everything = [requests, responses, *self._late]
            for task in everything:
                task.cancel()
            # Close before any wait, because the end of the proxy may cancel this task at a wait.
            self._broker[1].close()
            await asyncio.gather(*everything, return_exceptions=True)
            await _close(self._broker[1])

    async def _requests(self) -> None:
        reader, _ = self._client
        number = 0
        while (data := await _read_frame(reader)) is not None:
            frame = request_frame(self._number, number, data)
            number += 1
            self._asked[frame.correlation_id] = frame
            await self._pass(frame, _Way(self, self._broker[1]))

    async def _responses(self) -> None:
        reader, _ = self._broker
        number = 0
        while (data := await _read_frame(reader)) is not None:
            frame = response_frame(self._asked.pop(correlation_id_of(data)), number, data)
            number += 1
            await self._pass(frame, _Way(self, self._client[1]))

    async def _pass(self, frame: Frame, way: _Way) -> None:
        fate = self._proxy.fate_of(frame)
        if fate is None:
            await way.forward(frame.data)
            return
        meeting = asyncio.ensure_future(fate.meet(frame, way))
        self._late[meeting] = None
        meeting.add_done_callback(lambda done: self._late.pop(done, None))
        if not fate.is_overtaken:
            await asyncio.wait({meeting})

    async def aside(self, data: bytes) -> bytes:
        host, port = self._proxy.target.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(data)
            return await _read_frame(reader) or b""
        finally:
            await _close(writer)

    def reset(self) -> None:
        for _, writer in (self._client, self._broker):
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET
                )
            writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


class _Way:
    """Carries frames from one side of a connection to the other side."""

    def __init__(self, connection: _Connection, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.aside = connection.aside
        self.reset = connection.reset

    async def forward(self, data: bytes) -> None:
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next frame, or None if the connection ends before or within a frame."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(length_of(head))
    except (asyncio.IncompleteReadError, OSError):
        return None
