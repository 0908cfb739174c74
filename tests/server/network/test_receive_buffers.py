"""`socket.receive.buffer.bytes` holds for the connections of every listener. Without it, those of
listeners with TLS have a buffer of a fixed size."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
import uvloop

from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.settings.model import Settings
from tests.harness.descriptors import own_sockets
from tests.server.network.test_connection_rate import Echo, ManualClock

DEFAULT = Settings()
PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL


def given(size: int) -> Settings:
    name = "socket.receive.buffer.bytes"
    return Settings(socket_receive_buffer_bytes=size, given={name: str(size)})


def buffer_of(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def accepted(port: int) -> socket.socket:
    """Connect to a listener of this process. Return the listener's side of the connection. The
    event loop stands still meanwhile, so it accepts no connection."""
    with socket.create_connection(("127.0.0.1", port)):
        for found in own_sockets():
            with suppress(OSError):  # closed since it was listed
                if found.getsockname() == ("127.0.0.1", port):
                    return found.accept()[0]
    raise AssertionError(f"no socket listens on {port}")


async def _buffers(settings: Settings, protocol: SecurityProtocol) -> int:
    """Return the receive buffer of a connection to a listener with this protocol."""
    admission = PlaintextAdmission("L")
    admission.protocol = protocol
    clock = ManualClock()
    listener = Listener(Echo(), Limits.of(settings), clock, QuotaGate(clock.monotonic_ms))
    _, port = await listener.bind(admission, "127.0.0.1", 0)
    await listener.accept()
    try:
        with accepted(port) as sock:
            return buffer_of(sock)
    finally:
        await listener.stop(0.1)


@pytest.mark.parametrize(
    ("settings", "protocol", "size"),
    [
        (DEFAULT, SSL, 400 << 10),
        (given(102_400), SSL, 102_400),
        (DEFAULT, PLAINTEXT, None),
        (given(30_000), SSL, 30_000),
        (given(30_000), PLAINTEXT, 30_000),
        (given(102_400), PLAINTEXT, 102_400),
        (given(-1), SSL, None),
        (given(-1), PLAINTEXT, None),
    ],
)
def test_a_connection_has_the_receive_buffer_of_its_listener(
    settings: Settings, protocol: SecurityProtocol, size: int | None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as compared:
        if size is not None:
            compared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        port = compared.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), compared.accept()[0] as sock:
            expected = buffer_of(sock)
    assert uvloop.run(_buffers(settings, protocol)) == expected
