"""The mark of a TLS connection's socket never keeps the end of a request from being read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_protocol.tls.contexts import client_context, server_context
from oncelog_protocol.tls.engine import TlsEngine
from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.connection import Connection
from oncelog_server.network.receive_mark import MARK_BYTES, RECORD_BYTES, ReceiveMark
from oncelog_server.network.tls_transport import READ_BYTES, TlsTransport
from oncelog_server.security.protocols import SecurityProtocol
from tests.harness.certificates import Certificates
from tests.server.network.test_connection import Scripted

LARGE = 1 << 20
DEADLINE_S = 30


class Socket:
    """A socket that has only a mark."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self.mark = 1
        self.is_closed = False

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert not self.is_closed
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT):
            self.mark = value


class SocketTransport(asyncio.Transport):
    """The transport of that socket. It keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"socket": Socket(), "peername": ("127.0.0.1", 1)})
        self.written = bytearray()

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.get_extra_info("socket").is_closed)

    def close(self) -> None:
        self.get_extra_info("socket").is_closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


class World:
    """A connection over TLS to a server, and its client."""

    def __init__(self, folder: Path) -> None:
        certificates = Certificates(folder)
        context = server_context(certificates.server_settings("none"))
        self.client = TlsEngine(client_context(certificates.client_settings()), "localhost")
        self.server = Scripted()
        self.server.max_request_bytes = 2 * LARGE
        admission = PlaintextAdmission("SSL")
        admission.protocol = SecurityProtocol.SSL
        loop = asyncio.get_running_loop()
        self.connection = Connection(self.server, admission, loop)
        self._tls = TlsTransport(
            lambda: TlsEngine(context), self.connection, memoryview(bytearray(READ_BYTES))
        )
        self.transport = SocketTransport()
        self.socket: Socket = self.transport.get_extra_info("socket")
        self._tls.connection_made(self.transport)
        for _ in range(3):
            self.client.handshake()
            self.arrive(self.client.outgoing())
            self.client.received(bytes(self.transport.written))
            self.transport.written.clear()
        assert self.client.is_open

    def arrive(self, data: bytes) -> None:
        """Let the connection read these bytes at once."""
        self._tls.get_buffer(-1)[: len(data)] = data
        self._tls.buffer_updated(len(data))

    def encrypted(self, frame_bytes: int, records: Iterator[int]) -> bytes:
        """Return a frame of this size, in records of these sizes."""
        frame = frame_bytes.to_bytes(4, "big") + b"none ".ljust(frame_bytes, b".")
        while frame:
            size = next(records)
            self.client.write(frame[:size])
            frame = frame[size:]
        return bytes(self.client.outgoing())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


async def _no_end_is_below_the_mark(
    world: World, frames: list[int], records: list[int], reads: list[int]
) -> None:
    sizes = cycle(records)
    parts = [world.encrypted(frame, sizes) for frame in frames]
    ends = [*accumulate(map(len, parts))]
    data, position = b"".join(parts), 0
    for size in cycle(reads):
        world.arrive(data[position : position + size])
        position += size
        if position >= len(data):
            break
        missing = next(end for end in ends if end > position) - position
        assert world.socket.mark in (1, MARK_BYTES)
        assert world.socket.mark <= missing
    assert world.socket.mark == 1
    assert len(world.server.served) == len(frames)


SIZES = st.lists(st.integers(5, 6 * MARK_BYTES), min_size=1, max_size=4)
RECORDS = st.lists(st.integers(1_000, RECORD_BYTES), min_size=1, max_size=4)
READS = st.lists(st.integers(500, READ_BYTES), min_size=1, max_size=4)


@given(SIZES, RECORDS, READS)
@example([LARGE], [RECORD_BYTES], [RECORD_BYTES - 1])
@example([LARGE], [RECORD_BYTES], [100_000])
@example([LARGE, 5, LARGE], [2_000], [50_000, 1])
def test_the_missing_bytes_of_a_request_always_reach_the_mark(
    folder: Path, frames: list[int], records: list[int], reads: list[int]
) -> None:
    async def run() -> None:
        await _no_end_is_below_the_mark(World(folder), frames, records, reads)

    asyncio.run(run())


async def test_a_large_request_raises_the_mark_until_its_end_is_near(folder: Path) -> None:
    world = World(folder)
    data = world.encrypted(LARGE, cycle([RECORD_BYTES]))
    world.arrive(data[:100_000])
    assert world.socket.mark == MARK_BYTES
    far, near = (len(data) - MARK_BYTES - RECORD_BYTES * records for records in (3, 0))
    position = 100_000
    for end in (*range(200_000, far, 100_000), far):
        world.arrive(data[position:end])
        assert world.socket.mark == MARK_BYTES
        position = end
    world.arrive(data[far:near])
    assert world.socket.mark == 1


async def test_a_slow_client_is_read_at_each_look_at_the_time(folder: Path) -> None:
    world = World(folder)
    data = world.encrypted(LARGE, cycle([2_000]))
    world.arrive(data[:100_000])
    assert world.connection.delay(now_ms=5_000) is None
    assert world.socket.mark == 1
    world.arrive(data[100_000:100_100])
    assert world.socket.mark == 1  # no record is complete yet, so no byte has arrived
    world.arrive(data[100_100:103_000])
    assert world.socket.mark == MARK_BYTES


async def _arrives_after_the_mark_is_lowered() -> bytes:
    """Send 100 bytes to a socket with a mark. Return the bytes that it has when it is lowered."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()
    opened: asyncio.Future[asyncio.Transport] = loop.create_future()

    class Reader(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            opened.set_result(transport)

        def data_received(self, data: bytes) -> None:
            arrived.set_result(data)

    server = await loop.create_server(Reader, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        transport = await opened
        mark = ReceiveMark(transport, transport.get_extra_info("socket"))
        mark.follow(LARGE)
        client.sendall(bytes(100))
        for _ in range(10):
            await asyncio.sleep(0)  # turns of the loop, in which a readable socket is read
        assert not arrived.done()
        mark.lower()
        async with asyncio.timeout(DEADLINE_S):
            found = await arrived
        transport.abort()
    server.close()
    return found


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_bytes_below_the_mark_arrive_when_it_is_lowered(run: Callable[..., bytes]) -> None:
    assert run(_arrives_after_the_mark_is_lowered()) == bytes(100)


async def test_a_closed_socket_keeps_its_mark(folder: Path) -> None:
    """Its descriptor may be that of another socket."""
    world = World(folder)
    data = world.encrypted(LARGE, cycle([2_000]))
    world.arrive(data[:100_000])
    world.transport.close()
    assert world.connection.delay(now_ms=5_000) is None
    assert world.socket.mark == MARK_BYTES
