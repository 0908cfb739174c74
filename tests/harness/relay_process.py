"""`python -m tests.harness.relay_process`: the process of `relays.py`. It carries TCP connections
between hosts that exist in name only, and cuts them as a network would.

Its standard input has commands and its standard output has responses, one JSON document a line.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from dataclasses import dataclass, field
from typing import Any, Final

from oncelog.testing.proxy.frame import length_of, request_frame

# The client id of a broker in requests to another one begins with this and its id.
_BROKER: Final = "broker-"
# The header of a request has at least so many bytes before its client id, with the frame's length.
_BEFORE_CLIENT_ID: Final = 14
# With this SO_LINGER, a close sends RST.
_RESET: Final = struct.pack("ii", 1, 0)

Pair = tuple[str, str]


@dataclass
class Cuts:
    """The cuts of the moment. A pair is (from, to): what the first host sends does not arrive.
    `refusing`: the open connections of cut pairs are reset, and new ones too. Otherwise the
    connections are silent, and the bytes that were sent arrive after the cut."""

    pairs: frozenset[Pair] = frozenset()
    refusing: bool = False
    connections: set[Connection] = field(default_factory=set)

    def change(self, pairs: frozenset[Pair], *, refusing: bool) -> None:
        self.pairs, self.refusing = pairs, refusing
        for connection in list(self.connections):
            connection.obey()


class Connection(asyncio.Protocol):
    """A connection from `source` to `target`. Without `source`, the first request names it."""

    def __init__(self, cuts: Cuts, source: str, target: str, address: Pair) -> None:
        self._cuts = cuts
        self._source = source
        self._target = target
        self._address = address
        self._waiting = bytearray()
        self._client: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._upstream: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport
        self._cuts.connections.add(self)
        self.obey()

    def data_received(self, data: bytes) -> None:
        if self._upstream is not None:
            self._upstream.write(data)
            return
        self._waiting += data
        if not self._source:
            self._source = source_of(self._waiting)
            self.obey()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def obey(self) -> None:
        """Do what the cuts of the moment demand."""
        requests = (self._source, self._target) in self._cuts.pairs
        responses = (self._target, self._source) in self._cuts.pairs
        if (requests or responses) and self._cuts.refusing:
            self.close(reset=True)
            return
        turn_reading(self._client, off=requests)
        turn_reading(self._upstream, off=responses)
        # A handshake needs both directions.
        if self._source and self._opening is None and not (requests or responses):
            self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        host, port = self._address
        try:
            upstream, _ = await asyncio.get_running_loop().create_connection(
                lambda: _Upstream(self), host, int(port)
            )
        except OSError:
            self.close(reset=True)
            return
        self._upstream = upstream
        upstream.write(bytes(self._waiting))
        self.obey()

    def responded(self, data: bytes) -> None:
        if self._client is not None:
            self._client.write(data)

    def close(self, *, reset: bool = False) -> None:
        """End both sides. `reset`: unsent bytes are dropped."""
        self._cuts.connections.discard(self)
        if self._opening is not None and self._upstream is None:
            self._opening.cancel()
        for transport in (self._client, self._upstream):
            if transport is not None and reset:
                transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET
                )
                transport.abort()
            elif transport is not None:
                transport.close()
        self._client = self._upstream = None


class _Upstream(asyncio.Protocol):
    """The other side of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.responded(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.close()


def turn_reading(transport: asyncio.Transport | None, *, off: bool) -> None:
    """Stop or continue to read from one side."""
    if transport is None or transport.is_closing():
        return
    if off:
        transport.pause_reading()
    else:
        transport.resume_reading()


def source_of(data: bytes | bytearray) -> str:
    """Return the host that a broker's first request comes from. Return "" if too little has
    arrived."""
    if len(data) < _BEFORE_CLIENT_ID or len(data) < 4 + length_of(bytes(data[:4])):
        return ""
    client_id = request_frame(0, 0, bytes(data)).client_id
    assert client_id.startswith(_BROKER), client_id
    return "-".join(client_id.split("-")[:2])


async def serve() -> None:
    """Carry out commands until standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    cuts = Cuts()
    servers: list[asyncio.Server] = []
    while line := await reader.readline():
        command: dict[str, Any] = json.loads(line)
        response: dict[str, Any] = {}
        if "target" in command:
            server = await open_relay(cuts, **command)
            servers.append(server)
            response["port"] = server.sockets[0].getsockname()[1]
        else:
            pairs = frozenset((source, target) for source, target in command["cut"])
            cuts.change(pairs, refusing=command["refusing"])
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()


async def open_relay(cuts: Cuts, source: str, target: str, address: str) -> asyncio.Server:
    """Listen for connections to a host."""
    host, _, port = address.rpartition(":")
    return await asyncio.get_running_loop().create_server(
        lambda: Connection(cuts, source, target, (host, port)), "127.0.0.1", 0
    )


if __name__ == "__main__":
    asyncio.run(serve())
