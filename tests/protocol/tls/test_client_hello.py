"""A client cannot make the broker reserve memory for a ClientHello that it does not send."""

from __future__ import annotations

from contextlib import suppress

import pytest

from oncelog_protocol.tls.client_hello import FIRST_BYTES, MOST_BYTES, refused_hello
from oncelog_protocol.tls.contexts import server_context
from oncelog_protocol.tls.engine import TlsEngine, TlsFailed
from tests.harness.certificates import Certificates


def first_bytes(length: int, *, record_bytes: int = 500, kind: int = 22, message: int = 1) -> bytes:
    """Return the headers of a record, and of the ClientHello inside it."""
    return (
        bytes([kind, 3, 1])
        + record_bytes.to_bytes(2, "big")
        + bytes([message])
        + length.to_bytes(3, "big")
    )


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (first_bytes(500), None),
        (first_bytes(MOST_BYTES), None),
        (first_bytes(MOST_BYTES + 1), "a ClientHello of 16385 bytes; the limit is 16384"),
        (first_bytes(131_396), "a ClientHello of 131396 bytes; the limit is 16384"),
        (first_bytes(500, record_bytes=3), "a first record that is too short for a ClientHello"),
        (first_bytes(500, record_bytes=4), None),
        (first_bytes(131_396, message=2), None),
        (b"GET / HTTP"[:FIRST_BYTES], None),
    ],
)
def test_the_first_bytes_decide(first: bytes, reason: str | None) -> None:
    assert refused_hello(first) == reason


@pytest.mark.parametrize("size", [1, 4, FIRST_BYTES, 100])
def test_the_engine_refuses_a_large_hello(size: int, certificates: Certificates) -> None:
    """The bytes arrive in pieces of this size."""
    engine = TlsEngine(server_context(certificates.server_settings()))
    data = first_bytes(131_396, record_bytes=200) + bytes(200)
    for position in range(0, FIRST_BYTES, size):
        with suppress(TlsFailed):
            engine.received(data[position : position + size])
            assert not engine.handshake()
    with pytest.raises(TlsFailed, match="a ClientHello of 131396 bytes"):
        engine.handshake()
