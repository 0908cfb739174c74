"""`oncelog health` reads the response to ApiVersions without the codecs of the client."""

from __future__ import annotations

import socket
import struct

import pytest

from oncelog_client.health import Condition, NoResponse, _exchange
from oncelog_protocol.codecs import decoder, encoder
from oncelog_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


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


@pytest.mark.parametrize(
    "body", [b"\0\x29", b"\0\0\x02", b"\0\0\x01\0\0\0\0\x05\xff"], ids=["code", "short", "cut tags"]
)
def test_other_bytes_are_no_response(body: bytes) -> None:
    with pytest.raises(NoResponse, match="not the response of a broker"):
        exchanged(body)
