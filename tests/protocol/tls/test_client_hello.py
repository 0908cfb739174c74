"""A client cannot make the broker reserve memory for a ClientHello that it does not send."""

from __future__ import annotations

from contextlib import suppress

import pytest

from oncelog_protocol.tls.client_hello import (
    FIRST_BYTES,
    MOST_BYTES,
    MOST_COLLECTED,
    ClientHelloReader,
)
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


def reader_of(data: bytes) -> ClientHelloReader:
    reader = ClientHelloReader()
    reader.add(data)
    return reader


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
    assert reader_of(first).refusal == reason


def hello(message: bytes = bytes(500), record_bytes: int = 1 << 14) -> bytes:
    """Return a ClientHello with this content, in records of this many bytes."""
    whole = b"\x01" + len(message).to_bytes(3, "big") + message
    parts = [whole[at : at + record_bytes] for at in range(0, len(whole), record_bytes)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


@pytest.mark.parametrize("record_bytes", [4, 100, 504, 1 << 14])
def test_h7_a_hello_is_whole_with_its_last_byte(record_bytes: int) -> None:
    """The bytes arrive one at a time, in one record or in several."""
    data = hello(record_bytes=record_bytes)
    reader = ClientHelloReader()
    for position in range(len(data)):
        assert not reader.is_whole(), position
        reader.add(data[position : position + 1])
    assert reader.is_whole()
    assert reader.refusal is None
    assert reader.collected == data


@pytest.mark.parametrize(
    "data",
    [
        b"G",
        b"\x80",
        b"\x16\x03\x01\x01\x00\x02",  # another message of a handshake
        b"\x16\x03\x01\x00\x00",  # an empty record
        b"\x16\x03\x01\x40\x01",  # a record that is too long
        hello(record_bytes=100)[:105] + b"\x17\x03\x01\x00\x01",  # another kind of record
    ],
)
def test_bytes_that_are_no_hello_are_judged_by_openssl(data: bytes) -> None:
    assert reader_of(data).is_whole()
    assert not reader_of(data[:-1]).is_whole()


def test_h7_a_hello_that_ends_early_is_refused_without_openssl(certificates: Certificates) -> None:
    engine = TlsEngine(server_context(certificates.server_settings()))
    engine.received(hello()[:100])
    assert not engine.handshake()
    engine.received_eof()
    with pytest.raises(TlsFailed, match="has closed the connection during the handshake"):
        engine.handshake()
    assert engine.outgoing() == b""  # OpenSSL would send an alert


def test_h7_a_hello_in_very_many_records_is_refused() -> None:
    """Each record has four bytes, so the headers take more bytes than the message."""
    data = hello(bytes(MOST_BYTES), record_bytes=4)[: MOST_COLLECTED + 1]
    assert reader_of(data[:-1]).refusal is None
    reason = f"a ClientHello in more than {MOST_COLLECTED} bytes of records"
    assert reader_of(data).refusal == reason
    assert reader_of(hello(bytes(MOST_BYTES)) + bytes(MOST_COLLECTED)).refusal is None


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
