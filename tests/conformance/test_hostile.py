"""Connections that send nothing, too little or nonsense do not disturb other clients."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.records.batch import build_batch
from tests.conformance.conftest import Target
from tests.harness.writing import produce, records

IDLE_CONNECTIONS = 5_000
# Below `socket.listen.backlog.size`: with a full backlog the kernel delays a connect by a second.
BACKLOG = 40
# `socket.request.max.bytes`: Kafka refuses a greater length.
LARGEST_FRAME = 104_857_600

# A complete frame with truncated contents: a flexible header (KIP-482) and Metadata v12.
CUT_METADATA = struct.pack(">hhihB", 3, 12, 1, -1, 0) + b"\x05"

NONSENSE = {
    "a negative length": struct.pack(">i", -1),
    "a length above the maximum": struct.pack(">i", LARGEST_FRAME + 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(40),
    "an empty frame": struct.pack(">i", 0),
    "a frame of 0xFF bytes": struct.pack(">i", 64) + b"\xff" * 64,
    "a request with truncated contents": struct.pack(">i", len(CUT_METADATA)) + CUT_METADATA,
}


def is_served(target: Target) -> bool:
    """Return True if a new client gets a response."""
    with Wire(target.address) as wire:
        response = wire.call(ApiVersionsRequest("conformance", "1"), 3)
        return bool(response.api_keys)


def connect(target: Target) -> socket.socket:
    """Return a socket with a TCP connection to the broker."""
    host, port = target.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20)


@pytest.mark.parametrize("kind", NONSENSE)
def test_h1_h4_h7_an_undecodable_request_closes_only_its_own_connection(
    target: Target, kind: str
) -> None:
    """The broker closes a connection with an undecodable request, and serves the next client."""
    with Wire(target.address) as bystander, connect(target) as nonsense:
        nonsense.sendall(NONSENSE[kind])
        with suppress(ConnectionResetError):
            assert nonsense.recv(1) == b""
        assert bystander.call(ApiVersionsRequest("conformance", "1"), 3).api_keys
    assert is_served(target)


@pytest.mark.parametrize("kind", ["an HTTP request", "a TLS hello"])
def test_h7_the_first_four_bytes_of_http_or_tls_close_the_connection(
    target: Target, kind: str
) -> None:
    """The first four bytes, sent one by one, already form an invalid length."""
    with connect(target) as nonsense:
        nonsense.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in NONSENSE[kind][:4]:
            nonsense.sendall(bytes([byte]))
        with suppress(ConnectionResetError):
            assert nonsense.recv(1) == b""
    assert is_served(target)


def test_half_a_frame_holds_up_no_other_client(target: Target, topic: str) -> None:
    """One client stops in the middle of a request, another in the middle of its length."""
    with connect(target) as half_frame, connect(target) as half_length:
        half_frame.sendall(struct.pack(">ihhi", 1_000_000, 0, 9, 1) + bytes(1_000))
        half_length.sendall(b"\x00\x00")
        with Wire(target.address) as wire:
            for offset in range(20):
                assert produce(wire, topic, build_batch(records())).base_offset == offset


def test_a_request_in_single_bytes(target: Target) -> None:
    """A request may arrive in pieces of any size."""
    body = struct.pack(">hhih", 18, 0, 77, -1)
    with connect(target) as slow:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in struct.pack(">i", len(body)) + body:
            slow.sendall(bytes([byte]))
        response = slow.recv(8)
    assert struct.unpack_from(">i", response, 4) == (77,)


def test_h11_a_reset_in_the_middle_of_a_request_affects_no_other_client(
    target: Target, topic: str
) -> None:
    """Fifty clients reset their connections in the middle of a request. The broker serves the next
    client."""
    with Wire(target.address) as wire:
        for _ in range(50):
            gone = connect(target)
            gone.sendall(struct.pack(">ihhi", 500, 0, 9, 1))
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
        assert produce(wire, topic, build_batch(records())).base_offset == 0


def test_h9_extra_bytes_after_a_request_in_its_frame_are_ignored(target: Target) -> None:
    """librdkafka sends extra bytes after certain requests, and Kafka skips them, too. The bytes of
    the next frame belong to the next request."""
    body = struct.pack(">hhih", 18, 0, 77, -1)
    with connect(target) as connection:
        for _ in range(2):
            connection.sendall(struct.pack(">i", len(body) + 3) + body + b"xyz")
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                assert struct.unpack_from(">i", stream.read(size)) == (77,)


CLIENT_IDS = {
    "the longest": b"x" * 32_767,
    "no UTF-8": b"\xff\xfe\x80",
    "control characters": b"a\nb\r\x1b[31m\x00",
    "formats": b"%s%n{0}{}${jndi:x}",
}


@pytest.mark.parametrize("kind", CLIENT_IDS)
def test_h12_any_valid_string_is_accepted_as_client_id(target: Target, kind: str) -> None:
    """A request with any valid string as client id gets a response. Invalid bytes close the
    connection. Responses come in order, even if all requests have one correlation id."""
    name = CLIENT_IDS[kind]
    body = struct.pack(">hhih", 18, 0, 77, len(name)) + name
    with connect(target) as connection, suppress(ConnectionResetError):
        connection.sendall((struct.pack(">i", len(body)) + body) * 3)
        with connection.makefile("rb") as stream:
            for _ in range(3):
                head = stream.read(4)
                if not head:
                    assert kind == "no UTF-8"
                    break
                (size,) = struct.unpack(">i", head)
                assert struct.unpack_from(">i", stream.read(size)) == (77,)
    assert is_served(target)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Allow this process enough descriptors for its side of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE_CONNECTIONS + 1_000
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"only {hard} descriptors"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_h65_five_thousand_idle_connections_do_not_disturb_other_clients(
    target: Target, many_descriptors: None, topic: str
) -> None:
    """The connections cost only memory. The broker serves other clients and notices every close."""
    idle: list[socket.socket] = []
    try:
        while len(idle) < IDLE_CONNECTIONS:
            idle += [connect(target) for _ in range(BACKLOG)]
            # The response on the last connection shows that all are accepted.
            assert is_served(target)
        with Wire(target.address) as wire:
            for offset in range(20):
                assert produce(wire, topic, build_batch(records())).base_offset == offset
        last = idle[-1]
        body = struct.pack(">hhih", 18, 0, 1, -1)
        last.sendall(struct.pack(">i", len(body)) + body)
        assert len(last.recv(8)) == 8
    finally:
        for connection in idle:
            connection.close()
    assert is_served(target)
