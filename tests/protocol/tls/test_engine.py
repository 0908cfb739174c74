"""The engine loses no byte, waits for nothing, and names the reason of every failure."""

from __future__ import annotations

import gc
import ssl
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.tls.contexts import client_context, server_context
from oncelog_protocol.tls.engine import TlsEngine, TlsFailed
from tests.examples import examples
from tests.harness.certificates import Certificates
from tests.protocol.tls.pair import carry, read_all, shake_hands

Pair = tuple[TlsEngine, TlsEngine]


@pytest.fixture
def pair(certificates: Certificates) -> Pair:
    """Return a client and a server with a complete handshake."""
    return connected(certificates)


def connected(certificates: Certificates, piece: int = 1 << 20) -> Pair:
    server = TlsEngine(server_context(certificates.server_settings()))
    client = TlsEngine(client_context(certificates.client_settings()), "localhost")
    shake_hands(client, server, piece)
    return client, server


def test_a_handshake_in_single_bytes_completes(certificates: Certificates) -> None:
    client, server = connected(certificates, piece=1)
    assert client.is_open
    assert server.is_open
    assert client.description() == server.description()
    assert client.description()[0] == "TLSv1.3"


class Counted:
    """A TLS object that counts its reads."""

    def __init__(self, tls: ssl.SSLObject) -> None:
        self._tls = tls
        self.reads = 0

    def read(self, size: int, buffer: memoryview) -> int:
        self.reads += 1
        return int(self._tls.read(size, buffer))

    def pending(self) -> int:
        return self._tls.pending()


def test_openssl_is_called_once_for_each_record_and_not_without_bytes(pair: Pair) -> None:
    client, server = pair
    client.write(bytes(40_000))
    carry(client, server)
    counted = server._tls = Counted(server._tls)  # type: ignore[assignment]
    assert len(read_all(server)) == 40_000
    assert counted.reads == 3
    assert read_all(server) == b""
    assert counted.reads == 3


@settings(max_examples=examples(60), deadline=None, database=None)
@given(
    sizes=st.lists(st.integers(0, 50_000), max_size=6),
    piece=st.integers(1, 40_000),
    room=st.integers(1, 70_000),
)
def test_bytes_arrive_whole_and_in_order_whatever_the_pieces(
    certificates: Certificates, sizes: list[int], piece: int, room: int
) -> None:
    randomness = Random(f"{sizes} {piece}")
    for sender, receiver in (connected(certificates), connected(certificates)[::-1]):
        sent, buffer, arrived = bytearray(), memoryview(bytearray(room)), bytearray()
        for size in sizes:
            data = randomness.randbytes(size)
            sent += data
            sender.write(data)
        encrypted = sender.outgoing()
        for start in range(0, len(encrypted), piece):
            receiver.received(encrypted[start : start + piece])
            while count := receiver.read(buffer):
                arrived += buffer[:count]
        assert arrived == sent
        assert not receiver.peer_closed


@pytest.mark.parametrize("ending", ["close_notify", "end of the socket", "both", "a cut record"])
def test_bytes_before_a_close_are_read_after_it(pair: Pair, ending: str) -> None:
    """The read side was paused: everything arrives before the first read."""
    client, server = pair
    client.write(bytes(200_000))
    if ending in ("close_notify", "both"):
        client.close()
    carry(client, server)
    if ending == "a cut record":
        client.write(b"lost")
        server.received(client.outgoing()[:-1])
    if ending != "close_notify":
        server.received_eof()
    assert server.unread > 200_000
    assert not server.peer_closed
    assert read_all(server) == bytes(200_000)
    assert server.peer_closed
    assert server.read(memoryview(bytearray(10))) == 0


def test_a_side_that_has_got_close_notify_may_still_write(pair: Pair) -> None:
    client, server = pair
    client.write(b"request")
    client.close()
    carry(client, server)
    assert read_all(server) == b"request"
    server.write(b"response")
    server.close()
    carry(server, client)
    assert read_all(client) == b"response"
    assert client.peer_closed


@pytest.mark.parametrize("ending", ["end of the socket", "a cut record"])
def test_a_response_to_a_killed_peer_is_no_failure(pair: Pair, ending: str) -> None:
    """A killed process sends no close_notify, and no longer reads."""
    client, server = pair
    client.write(b"request")
    carry(client, server)
    if ending == "a cut record":
        client.write(b"lost")
        server.received(client.outgoing()[:-1])
    server.received_eof()
    assert read_all(server) == b"request"
    assert server.peer_closed
    server.write(b"response")
    server.close()


def test_bytes_before_a_damaged_record_are_read_and_then_it_fails(pair: Pair) -> None:
    client, server = pair
    client.write(bytes(100_000))
    carry(client, server)
    client.write(b"x" * 100)
    damaged = bytearray(client.outgoing())
    damaged[-1] ^= 1
    server.received(damaged)
    buffer = memoryview(bytearray(150_000))
    assert server.read(buffer) == 100_000
    for _ in range(2):
        with pytest.raises(TlsFailed, match="a damaged record"):
            server.read(buffer)
    with pytest.raises(TlsFailed):
        server.write(b"more")
    server.close()


HTTP = b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n"
API_VERSIONS = bytes.fromhex("00000018 0012 0003 00000001 0003 666f6f 00 04 666f6f 04 312e30 00")
REASONS = {
    "http": (HTTP, "plain HTTP on a TLS listener"),
    "proxy": (b"CONNECT broker:9093 HTTP/1.1\r\n\r\n", "plain HTTP on a TLS listener"),
    "kafka": (API_VERSIONS, "plain bytes on a TLS listener"),
    "text": (b"hello, is this a broker?\r\n", "plain bytes on a TLS listener"),
    "zeros": (bytes(100), "plain bytes on a TLS listener"),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_listener_names_what_is_not_tls(certificates: Certificates, case: str) -> None:
    data, reason = REASONS[case]
    server = TlsEngine(server_context(certificates.server_settings()))
    server.received(data)
    with pytest.raises(TlsFailed) as failure:
        server.handshake()
    assert failure.value.reason == str(failure.value) == reason


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_a_peer_that_leaves_in_the_handshake_is_a_reason(
    certificates: Certificates, sent: bytes
) -> None:
    server = TlsEngine(server_context(certificates.server_settings()))
    server.received(sent)
    assert not server.handshake()
    server.received_eof()
    with pytest.raises(TlsFailed, match="the peer has closed the connection during the handshake"):
        server.handshake()


def test_a_client_names_a_listener_without_tls(certificates: Certificates) -> None:
    client = TlsEngine(client_context(certificates.client_settings()), "localhost")
    assert not client.handshake()
    client.received(bytes(40))
    with pytest.raises(TlsFailed, match="the listener does not speak TLS"):
        client.handshake()


def failures(client: TlsEngine, server: TlsEngine) -> list[str]:
    """Exchange everything. Return the reasons of the client and of the server."""
    found = ["", ""]
    buffer = memoryview(bytearray(10))
    for _ in range(4):
        for side, (engine, peer) in enumerate([(client, server), (server, client)]):
            try:
                if engine.handshake():
                    engine.read(buffer)
            except TlsFailed as failure:
                found[side] = failure.reason
            carry(engine, peer)
    return found


@pytest.mark.parametrize("versions", [("TLSv1.2",), ("TLSv1.3",)])
def test_a_client_without_its_certificate_is_refused(
    certificates: Certificates, versions: tuple[str, ...]
) -> None:
    listener = certificates.server_settings("required")._replace(enabled_protocols=versions)
    client = TlsEngine(client_context(certificates.client_settings()), "localhost")
    ours, theirs = failures(client, TlsEngine(server_context(listener)))
    assert theirs == "the client has sent no certificate"
    assert ours in (
        "the peer requires a certificate (ssl.client.auth)",
        "the peer has no version or cipher suite in common with us",
    )


@pytest.mark.parametrize("client_auth", ["required", "requested"])
def test_a_certificate_of_another_authority_is_refused(
    certificates: Certificates, client_auth: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`requested` accepts a client without a certificate, but none with an untrusted one."""
    other = Certificates(tmp_path_factory.mktemp("other")).client("mallory")
    client = TlsEngine(client_context(certificates.client_settings(other)), "localhost")
    server = TlsEngine(server_context(certificates.server_settings(client_auth)))
    ours, theirs = failures(client, server)
    assert theirs == (
        "the certificate of the peer is not valid: unable to get local issuer certificate"
    )
    assert ours == "the peer does not trust the authority of our certificate"


def test_a_client_refuses_a_certificate_of_another_host(certificates: Certificates) -> None:
    client = TlsEngine(client_context(certificates.client_settings()), "other.test")
    ours, _ = failures(client, TlsEngine(server_context(certificates.server_settings())))
    assert ours == (
        "the certificate of the peer is not valid: "
        "hostname mismatch, certificate is not valid for 'other.test'"
    )
    lenient = certificates.client_settings()._replace(endpoint_identification_algorithm="")
    client = TlsEngine(client_context(lenient), "other.test")
    shake_hands(client, TlsEngine(server_context(certificates.server_settings())))
    assert client.is_open


def test_sides_without_a_common_version_name_the_setting(certificates: Certificates) -> None:
    old = certificates.client_settings()._replace(enabled_protocols=("TLSv1.2",))
    new = certificates.server_settings()._replace(enabled_protocols=("TLSv1.3",))
    ours, theirs = failures(
        TlsEngine(client_context(old), "localhost"), TlsEngine(server_context(new))
    )
    assert theirs == "the peer speaks no TLS version of ssl.enabled.protocols"
    assert ours == "the peer refuses our TLS versions"


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_the_certificate_of_the_client_is_given_where_it_was_asked_for(
    certificates: Certificates, client_auth: str
) -> None:
    alice = certificates.client("alice")
    client = TlsEngine(client_context(certificates.client_settings(alice)), "localhost")
    server = TlsEngine(server_context(certificates.server_settings(client_auth)))
    shake_hands(client, server)
    assert server.peer_certificate() == (None if client_auth == "none" else alice.der)
    assert client.peer_certificate() == certificates.server.der


def test_a_requested_certificate_may_be_left_out(certificates: Certificates) -> None:
    client = TlsEngine(client_context(certificates.client_settings()), "127.0.0.1")
    server = TlsEngine(server_context(certificates.server_settings("requested")))
    shake_hands(client, server)
    assert server.peer_certificate() is None


def test_an_engine_before_its_handshake_has_no_suite_and_nothing_to_send() -> None:
    engine = TlsEngine(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    assert engine.description() == ("", "")
    assert engine.outgoing() == b""
    engine.close()
    assert engine.outgoing() == b""


def test_a_failed_engine_is_freed_at_once(certificates: Certificates) -> None:
    """An attacker can cause many failures between two full collections."""
    context = server_context(certificates.server_settings())
    # Each failure would leave garbage. A thread of an earlier test leaves some at most by chance.
    assert min(_garbage_of_a_failure(context) for _ in range(5)) == 0


def _garbage_of_a_failure(context: ssl.SSLContext) -> int:
    gc.collect()
    gc.disable()
    try:
        engine = TlsEngine(context)
        engine.received(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(TlsFailed):
            engine.handshake()
        del engine
        return gc.collect()
    finally:
        gc.enable()
