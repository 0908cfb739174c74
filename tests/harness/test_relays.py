"""The network that can be cut."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.harness.relays import Relays

TIMEOUT_S = 10.0
# A cut connection must show nothing for so long.
SILENCE_S = 0.2
# A request of broker 1 with its length: ApiVersions, version 0, correlation id 7.
CLIENT_ID = b"broker-1-markers"
HEADER = struct.pack(">hhih", 18, 0, 7, len(CLIENT_ID)) + CLIENT_ID
REQUEST = struct.pack(">i", len(HEADER)) + HEADER
THERE = ("broker-1", "broker-2")
BACK = ("broker-2", "broker-1")


@pytest.fixture
def relays() -> Iterator[Relays]:
    with Relays() as relays:
        yield relays


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        yield server


def address_of(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def received(connection: socket.socket) -> bytes | None:
    """Return what arrives, None if nothing does."""
    connection.settimeout(SILENCE_S)
    try:
        return connection.recv(1000)
    except TimeoutError:
        return None
    finally:
        connection.settimeout(TIMEOUT_S)


def test_the_first_request_names_the_broker_that_is_cut(
    relays: Relays, target: socket.socket
) -> None:
    relay = relays.open("broker-2", address_of(target))
    with connect(relay) as client:
        client.sendall(REQUEST)
        served, _ = target.accept()
        with served:
            assert served.recv(1000) == REQUEST
            relays.cut({("broker-3", "broker-2")})
            served.sendall(b"response")
            assert client.recv(1000) == b"response"
            relays.cut({THERE})
            client.sendall(b"later")
            assert received(served) is None
            served.sendall(b"the other direction")
            assert client.recv(1000) == b"the other direction"
            relays.cut({BACK})
            assert served.recv(1000) == b"later"
            served.sendall(b"lost")
            assert received(client) is None
            relays.heal()
            assert client.recv(1000) == b"lost"


@pytest.mark.parametrize("pair", [THERE, BACK])
def test_a_connection_made_during_a_cut_begins_after_it(
    relays: Relays, target: socket.socket, pair: tuple[str, str]
) -> None:
    relay = relays.open("broker-2", address_of(target), "broker-1")
    relays.cut({pair})
    with connect(relay) as client:
        client.sendall(b"request")
        assert received(client) is None
        target.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            target.accept()
        target.settimeout(TIMEOUT_S)
        relays.heal()
        served, _ = target.accept()
        with served:
            assert served.recv(1000) == b"request"


def test_a_refusing_cut_ends_connections_and_refuses_new_ones(
    relays: Relays, target: socket.socket
) -> None:
    relay = relays.open("broker-2", address_of(target), "broker-1")
    with connect(relay) as client:
        client.sendall(b"request")
        served, _ = target.accept()
        with served:
            assert served.recv(1000) == b"request"
            relays.cut({THERE, BACK}, refusing=True)
            with pytest.raises(ConnectionResetError):
                client.recv(1000)
            with pytest.raises(ConnectionResetError):
                served.recv(1000)
    with pytest.raises(ConnectionResetError), connect(relay) as refused:
        refused.recv(1000)


def test_a_host_that_does_not_listen_refuses(relays: Relays) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        relay = relays.open("broker-2", address_of(closed), "broker-1")
    with pytest.raises(ConnectionResetError), connect(relay) as client:
        client.recv(1000)
