"""Raw requests to etcd's JSON gateway, for tests that compare responses."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import h11

DEADLINE_S: Final = 15.0

Document = dict[str, Any]


def text(data: bytes | str) -> str:
    """Return bytes as the gateway writes them."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


class Reply(NamedTuple):
    """The document of a response: JSON, or the text if it is not JSON."""

    status: int
    document: Any


class ClosedByPeer(Exception):
    """The connection has ended before the end of the response."""


class GatewayConnection:
    """A connection to one member. Each wait has a deadline."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, address: str) -> GatewayConnection:
        """Connect to HOST:PORT. Raises OSError."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def call(
        self,
        path: str,
        body: Document | str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "POST",
    ) -> Reply:
        """Send a request. Return the response. Raises ClosedByPeer."""
        self._send(path, body, headers or {}, method)
        status = await self._head()
        data = b""
        while (part := await self._data()) is not None:
            data += part
        self._http.start_next_cycle()
        return Reply(status, _document(data))

    async def watch(
        self, create: Document, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Document, None]:
        """Yield the elements of the stream of a watch, to its end. Raises ClosedByPeer."""
        self._send("/v3/watch", {"create_request": create}, headers or {}, "POST")
        await self._head()
        data = b""
        while (part := await self._data()) is not None:
            *lines, data = (data + part).split(b"\n")
            for line in lines:
                if line:
                    yield json.loads(line)
        if data:
            # An error ends the stream, without a line feed.
            yield json.loads(data)
        self._http.start_next_cycle()

    def close(self) -> None:
        self._writer.close()

    def _send(
        self, path: str, body: Document | str, headers: Mapping[str, str], method: str
    ) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        fields = {"Host": "etcd", "Content-Length": str(len(data)), **headers}
        request = h11.Request(method=method, target=path, headers=list(fields.items()))
        for event in (request, h11.Data(data=data), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")

    async def _head(self) -> int:
        event = await self._event()
        assert isinstance(event, h11.Response), event
        return event.status_code

    async def _data(self) -> bytes | None:
        event = await self._event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        assert isinstance(event, h11.EndOfMessage), event
        return None

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(DEADLINE_S):
                try:
                    data = await self._reader.read(65_536)
                except ConnectionError as error:
                    raise ClosedByPeer(str(error)) from error
            if not data:
                raise ClosedByPeer("the connection has ended")
            self._http.receive_data(data)
        return event


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode().strip()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[GatewayConnection]:
    connection = await GatewayConnection.open(address)
    try:
        yield connection
    finally:
        connection.close()
