"""TLS between a socket and a connection: every byte arrives, and every failure has a reason."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from oncelog_protocol.tls.contexts import client_context, server_context
from oncelog_protocol.tls.engine import TlsEngine
from oncelog_server.network.outbox import SLICE_BYTES
from oncelog_server.network.tls_transport import READ_BYTES, TlsTransport
from oncelog_server.security.sasl.exchange import AuthenticationRefused
from tests.harness.certificates import Certificates
from tests.protocol.tls.pair import shake_hands

DEADLINE_S = 30
# A producer with acks=0 that closes right after its last request has sent this many bytes.
BURST_BYTES = 200_000
# A record of application data, with zeros in place of encrypted bytes.
DAMAGED_RECORD = b"\x17\x03\x03\0\x20" + bytes(32)


class Receiver:
    """A connection above TLS that notes everything. With `pauses`, it stops reading after its first
    bytes, until the test resumes it."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(16 << 10))
        self.received = bytearray()
        self.transport: asyncio.Transport | None = None
        self.certificate: bytes | None = None
        self.established = False
        self.failures: list[str] = []
        self.ended = False
        self.lost = asyncio.Event()
        self.pauses = False
        self.pauses_first = False
        self.keeps_open = False
        self.refuses = False
        self.write_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.pauses_first:
            transport.pause_reading()

    def tls_established(self, certificate: bytes | None) -> None:
        if self.refuses:
            raise AuthenticationRefused("no", "no rule matches")
        self.established = True
        self.certificate = certificate

    def tls_failed(self, reason: str) -> None:
        self.failures.append(reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        if self.pauses:
            assert self.transport is not None
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        assert not self.ended, "a second end"
        self.ended = True
        return self.keeps_open

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


class World:
    """A TLS listener with one connection at a time."""

    def __init__(self, folder: Path, client_auth: str) -> None:
        self.certificates = Certificates(folder)
        self.receiver = Receiver()
        self.engines = 0
        self.port = 0
        context = server_context(self.certificates.server_settings(client_auth))

        def new_engine() -> TlsEngine:
            self.engines += 1
            return TlsEngine(context)

        shared = memoryview(bytearray(READ_BYTES))
        self.new_protocol: Callable[[], TlsTransport] = lambda: TlsTransport(
            new_engine, self.receiver, shared
        )
        self.trusting = client_context(self.certificates.client_settings())

    async def connect(
        self, context: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context or self.trusting, server_hostname="localhost"
        )

    async def until(self, condition: Callable[[], object]) -> None:
        """Run the loop until a condition is true."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - waits for turns of the loop
                await asyncio.sleep(0.001)


@asynccontextmanager
async def listening(folder: Path, client_auth: str = "none") -> AsyncIterator[World]:
    world = World(folder, client_auth)
    server = await asyncio.get_running_loop().create_server(world.new_protocol, "127.0.0.1", 0)
    world.port = server.sockets[0].getsockname()[1]
    try:
        yield world
    finally:
        server.close()
        if world.receiver.transport is not None:
            world.receiver.transport.abort()
            async with asyncio.timeout(DEADLINE_S):
                await world.receiver.lost.wait()


@pytest.mark.parametrize("notifies", [True, False], ids=["close_notify", "FIN alone"])
@pytest.mark.parametrize("pauses", [True, False])
async def test_all_bytes_before_the_end_arrive_even_while_the_connection_does_not_read(
    tmp_path: Path, pauses: bool, notifies: bool
) -> None:
    """Of 200,000 bytes, uvloop's own TLS delivers 16,384 in this situation."""
    async with listening(tmp_path) as world:
        receiver = world.receiver
        receiver.pauses = pauses
        burst = bytes(range(250)) * (BURST_BYTES // 250)
        sending = asyncio.create_task(asyncio.to_thread(_send_and_close, world, burst, notifies))
        await world.until(lambda: receiver.received)
        while len(receiver.received) < len(burst):
            seen = len(receiver.received)
            if pauses:
                assert not receiver.ended
                assert receiver.transport is not None
                receiver.transport.resume_reading()
            await world.until(partial(_has_more_than, receiver, seen))
        if pauses and receiver.transport is not None:
            receiver.pauses = False
            receiver.transport.resume_reading()
        await world.until(lambda: receiver.ended)
        async with asyncio.timeout(DEADLINE_S):
            await sending
        assert receiver.received == burst
        assert not receiver.failures


def _has_more_than(receiver: Receiver, count: int) -> bool:
    return len(receiver.received) > count


def _send_and_close(world: World, data: bytes, notifies: bool) -> None:
    plain = socket.create_connection(("127.0.0.1", world.port), timeout=DEADLINE_S)
    tls = world.trusting.wrap_socket(plain, server_hostname="localhost")
    tls.sendall(data)
    if notifies:
        with suppress(OSError):  # the broker closes without a close_notify of its own
            tls.unwrap()
    tls.shutdown(socket.SHUT_WR)
    tls.close()


async def test_the_connection_may_respond_after_the_client_has_closed_its_side(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as world:
        world.receiver.keeps_open = True
        reader, writer = await world.connect()
        writer.write(b"request")
        await world.until(lambda: world.receiver.received == b"request")
        assert world.receiver.transport is not None
        world.receiver.transport.write(b"response")
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readexactly(8) == b"response"
        world.receiver.transport.close()
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        writer.close()


async def test_the_certificate_of_the_client_is_known_from_the_start(tmp_path: Path) -> None:
    async with listening(tmp_path, "required") as world:
        identity = world.certificates.client("carol")
        context = client_context(world.certificates.client_settings(identity))
        _, writer = await world.connect(context)
        await world.until(lambda: world.receiver.established)
        assert world.receiver.certificate == identity.der
        writer.close()


async def test_a_handshake_waits_while_the_connection_does_not_read(tmp_path: Path) -> None:
    """A connection beyond the rate of its listener waits from the start."""
    async with listening(tmp_path) as world:
        receiver = world.receiver
        receiver.pauses_first = True
        connecting = asyncio.create_task(world.connect())
        await world.until(lambda: receiver.transport is not None)
        # The first message of the client arrives: uvloop reads once, although reading is paused.
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert not connecting.done()
        assert not receiver.established
        assert receiver.transport is not None
        receiver.transport.resume_reading()
        async with asyncio.timeout(DEADLINE_S):
            _, writer = await connecting
        writer.write(b"request")
        await world.until(lambda: receiver.received == b"request")
        assert receiver.established
        assert not receiver.failures
        writer.close()


async def test_a_refused_name_ends_the_connection_with_its_reason(tmp_path: Path) -> None:
    async with listening(tmp_path) as world:
        world.receiver.refuses = True
        reader, writer = await world.connect()
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        assert world.receiver.failures == ["no rule matches"]
        assert not world.receiver.established
        writer.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "plain HTTP on a TLS listener"),
        (b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", "plain bytes on a TLS listener"),
        (b"\x16\x03\x01", "closed the connection during the handshake"),
    ],
)
async def test_a_client_that_speaks_no_tls_is_refused_with_one_reason(
    tmp_path: Path, sent: bytes, reason: str
) -> None:
    async with listening(tmp_path) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(DEADLINE_S):
            await reader.read()
        (failure,) = world.receiver.failures
        assert reason in failure
        writer.close()


async def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path, "required") as world:
        reader, writer = await world.connect()
        with suppress(ssl.SSLError, ConnectionError):  # the alert, if it arrives before the end
            async with asyncio.timeout(DEADLINE_S):
                assert await reader.read() == b""
        assert world.receiver.failures == ["the client has sent no certificate"]
        writer.close()


async def test_a_silent_client_costs_no_tls_state_and_no_log_line(tmp_path: Path) -> None:
    async with listening(tmp_path) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        await world.until(lambda: world.receiver.transport)
        assert world.engines == 0
        writer.write_eof()
        async with asyncio.timeout(DEADLINE_S):
            await reader.read()
            await world.receiver.lost.wait()
        assert not world.receiver.failures
        world.receiver.transport = None
        writer.close()


async def test_a_writer_is_paused_while_the_client_does_not_read(tmp_path: Path) -> None:
    async with listening(tmp_path) as world:
        reader, writer = await world.connect()
        writer.write(b"x")
        await world.until(lambda: world.receiver.received)
        transport = world.receiver.transport
        assert transport is not None
        sent = 0
        piece = bytes(128 << 10)
        async with asyncio.timeout(DEADLINE_S):
            while not world.receiver.write_paused:
                transport.write(piece)
                sent += len(piece)
                await asyncio.sleep(0)
            assert transport.get_write_buffer_size() > 0
            assert await reader.readexactly(sent) == bytes(sent)
        await world.until(lambda: not world.receiver.write_paused)
        writer.close()


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b""])
async def test_a_failed_connection_is_freed_at_once(tmp_path: Path, sent: bytes) -> None:
    """No cycle of references keeps it until a full collection."""
    async with listening(tmp_path) as world:
        made: list[weakref.ref[TlsTransport]] = []
        new_protocol = world.new_protocol

        def noted() -> TlsTransport:
            protocol = new_protocol()
            made.append(weakref.ref(protocol))
            return protocol

        server = await asyncio.get_running_loop().create_server(noted, "127.0.0.1", 0)
        gc.disable()
        try:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(sent)
            await world.until(lambda: made)
            writer.close()
            async with asyncio.timeout(DEADLINE_S):
                await world.receiver.lost.wait()
            world.receiver.transport = None
            await world.until(lambda: made[0]() is None)
            assert len(made) == 1
        finally:
            gc.enable()
            server.close()


async def test_a_response_after_a_failure_of_tls_is_dropped(tmp_path: Path) -> None:
    """A parked request may complete while the failed connection waits for the client to read."""
    async with listening(tmp_path) as world:
        sending = asyncio.create_task(asyncio.to_thread(_send_damaged_record, world))
        await world.until(lambda: world.receiver.transport and world.receiver.established)
        transport = world.receiver.transport
        assert transport is not None
        while not world.receiver.write_paused:
            transport.write(bytes(128 << 10))
        client = await sending
        await world.until(lambda: world.receiver.failures)
        assert not world.receiver.lost.is_set()

        transport.write(b"late")
        transport.writelines([b"late", b"too"])

        assert transport.is_closing()
        client.close()


async def test_a_failure_behind_a_request_ends_the_connection_at_once(tmp_path: Path) -> None:
    """It does not wait for more bytes of the client."""
    async with listening(tmp_path) as world:
        writer = await _send_request_and_damaged_record(world)
        async with asyncio.timeout(DEADLINE_S):
            await world.receiver.lost.wait()
        assert world.receiver.received == b"request"
        assert world.receiver.failures == ["a damaged record"]
        writer.close()


async def test_a_response_that_finds_the_failure_ends_the_connection(tmp_path: Path) -> None:
    """The damaged record comes after a request, and the connection does not read any more. The
    response to that request must not raise, or the log would call the damaged record a defect."""
    async with listening(tmp_path) as world:
        world.receiver.pauses = True
        writer = await _send_request_and_damaged_record(world)
        await world.until(lambda: world.receiver.received == b"request")
        transport = world.receiver.transport
        assert transport is not None
        assert not world.receiver.failures

        transport.write(b"response")

        assert transport.is_closing()
        assert world.receiver.failures == ["a damaged record"]
        writer.close()


def test_an_encrypted_slice_of_a_file_leaves_in_two_segments(tmp_path: Path) -> None:
    """A third segment with a few bytes costs as much as the other two. Linux puts at most 65,483
    bytes into a segment on the loopback interface, and a few more on other interfaces."""
    certificates = Certificates(tmp_path)
    server = TlsEngine(server_context(certificates.server_settings()))
    client = TlsEngine(client_context(certificates.client_settings()), "localhost")
    shake_hands(client, server, 1 << 20)
    server.write(bytes(100 + SLICE_BYTES))  # the head of a response comes with its first slice
    assert SLICE_BYTES < len(server.outgoing()) <= 2 * 65_483


async def _send_request_and_damaged_record(world: World) -> asyncio.StreamWriter:
    """Connect, and send both so that one read of the broker gets them."""
    client = TlsEngine(world.trusting, "localhost")
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    async with asyncio.timeout(DEADLINE_S):
        while not client.handshake():
            writer.write(client.outgoing())
            client.received(await reader.read(READ_BYTES))
    client.write(b"request")
    writer.write(client.outgoing() + DAMAGED_RECORD)
    return writer


def _send_damaged_record(world: World) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", world.port), timeout=DEADLINE_S)
    tls = world.trusting.wrap_socket(plain, server_hostname="localhost")
    socket.socket.sendall(tls, DAMAGED_RECORD)
    return tls
