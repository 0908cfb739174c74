"""`oncelog health` reads the response to ApiVersions without the codecs of the client."""

from __future__ import annotations

import _socket
import socket
import struct
import time
from contextlib import suppress
from threading import Thread

import pytest

from oncelog_client.bare_connection import connect
from oncelog_client.health import Condition, NoResponse, _exchange, check
from oncelog_client.listener_addresses import Address
from oncelog_protocol.codecs import decoder, encoder
from oncelog_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

# No such family of addresses exists.
_NO_SUCH_FAMILY = 12_345


def encoded(response: ApiVersionsResponse) -> bytes:
    parts: list[bytes] = []
    encoder(ApiVersionsResponse, 3)(response, parts.append)
    return b"".join(parts)


def exchanged(body: bytes) -> tuple[Condition, bytes]:
    """Return the condition that is read from a response, and the request."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">ii", len(body) + 4, 0) + body)
        theirs.shutdown(socket.SHUT_WR)
        condition = _exchange(ours)
        return condition, theirs.recv(1_000)


@pytest.mark.parametrize("silence_ms", [0, 1, 1 << 40])
@pytest.mark.parametrize("is_suspended", [False, True])
def test_the_condition_is_read_from_the_tags(silence_ms: int, is_suspended: bool) -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(key, 0, key) for key in range(200)],
        supported_features=[SupportedFeatureKey("f", 0, 2)],
        finalized_features_epoch=7,
        finalized_features=[FinalizedFeatureKey("f", 2, 2)],
        store_silence_ms=silence_ms,
        is_suspended=is_suspended,
    )
    found, _ = exchanged(encoded(response))
    assert (found.silence_ms, found.is_suspended) == (silence_ms, is_suspended)


@pytest.mark.parametrize(
    ("silence_ms", "time"), [(1, "1 ms"), (999, "999 ms"), (1_000, "1 s"), (61_900, "61 s")]
)
def test_a_short_silence_is_not_shown_as_zero(silence_ms: int, time: str) -> None:
    text = str(Condition(silence_ms))
    assert text == f"; its metadata store has not responded for {time}"


def test_the_request_is_a_valid_one() -> None:
    _, request = exchanged(encoded(ApiVersionsResponse()))
    size, key, version, correlation_id, client_id = struct.unpack(">ihhih", request[:14])
    assert (size, key, version, correlation_id, client_id) == (len(request) - 4, 18, 3, 0, -1)
    assert request[14] == 0, "no tags in the header"
    body = decoder(ApiVersionsRequest, 3)(request, 15)[0]
    assert (body.client_software_name, body.client_software_version) == ("oncelog-health", "1")


def test_a_broker_that_does_not_know_the_version_responds() -> None:
    found, _ = exchanged(struct.pack(">hi", 35, 0))
    assert (found.silence_ms, found.is_suspended) == (0, False)


@pytest.mark.parametrize("has_reset", [True, False])
@pytest.mark.parametrize("tls", [None, False, True])
def test_a_listener_that_closes_at_once_is_not_called_a_listener_without_tls(
    tls: bool | None, has_reset: bool
) -> None:
    """A broker closes connections above max.connections without a response."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_all() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.recv(1_000)
                    if has_reset:
                        linger = struct.pack("ii", 1, 0)
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.close()

        closing = Thread(target=close_all)
        closing.start()
        host, port = listener.getsockname()
        address = Address(host, port, tls)
        found, _, failures = check([address], timeout_s=60)
        listener.shutdown(socket.SHUT_RDWR)
        closing.join(60)
    assert found is None
    assert failures == [
        f"{address}: the connection was closed before a response; the log of the broker says why"
    ]


@pytest.mark.parametrize(
    "body", [b"\0\x29", b"\0\0\x02", b"\0\0\x01\0\0\0\0\x05\xff"], ids=["code", "short", "cut tags"]
)
def test_other_bytes_are_no_response(body: bytes) -> None:
    with pytest.raises(NoResponse, match="not the response of a broker"):
        exchanged(body)


class NoFamily:
    """A resolver. Its first address has a family that the system does not have."""

    def __init__(self, *after: tuple[str, int]) -> None:
        self._after = after

    def __call__(self, *_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        families = [(_NO_SUCH_FAMILY, ("::1", 9)), *((socket.AF_INET, to) for to in self._after)]
        return [(int(family), socket.SOCK_STREAM, 0, "", to) for family, to in families]


def test_an_address_without_sockets_of_its_family_does_not_end_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`localhost` is an address of IPv6 first, which a container may have switched off."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(_socket, "getaddrinfo", NoFamily(listener.getsockname()))
        connect("localhost", 9, time.monotonic() + 60).close()
        monkeypatch.setattr(_socket, "getaddrinfo", NoFamily())
        with pytest.raises(OSError, match="not supported"):
            connect("localhost", 9, time.monotonic() + 60)
