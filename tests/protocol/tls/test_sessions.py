"""A client resumes its session of TLS 1.3 if it has read a response, and never without a new check
of its certificate."""

from __future__ import annotations

import ssl

import pytest

from oncelog_protocol.tls.contexts import client_context, server_context
from oncelog_protocol.tls.engine import TlsEngine
from tests.harness.certificates import Certificates
from tests.protocol.tls.pair import carry, read_all, shake_hands


class Client:
    """A client of Python's own module, which can offer a session."""

    def __init__(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost", session=session
        )

    def shake_hands(self, server: TlsEngine) -> None:
        """Complete the handshake of both sides."""
        while True:
            try:
                self.tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                is_done = False
            self.send_to(server)
            if server.handshake() and is_done:
                return
            self._incoming.write(server.outgoing())

    def send_to(self, server: TlsEngine) -> None:
        server.received(self._outgoing.read())

    def read_from(self, server: TlsEngine) -> bytes:
        self._incoming.write(server.outgoing())
        return self.tls.read()


def session_of(context: ssl.SSLContext, listener: ssl.SSLContext) -> ssl.SSLSession:
    """Return the session of a connection after its first response."""
    server = TlsEngine(listener)
    client = Client(context)
    client.shake_hands(server)
    server.write(b"response")
    assert client.read_from(server) == b"response"
    assert client.tls.session is not None
    return client.tls.session


def is_resumed(context: ssl.SSLContext, listener: ssl.SSLContext, session: ssl.SSLSession) -> bool:
    """Return True if a new connection resumes the session. The connection must work in any case."""
    server = TlsEngine(listener)
    client = Client(context, session)
    client.shake_hands(server)
    client.tls.write(b"request")
    client.send_to(server)
    assert read_all(server) == b"request"
    server.write(b"response")
    assert client.read_from(server) == b"response"
    return bool(client.tls.session_reused)


def test_a_session_is_resumed_again_and_again(certificates: Certificates) -> None:
    listener = server_context(certificates.server_settings())
    context = client_context(certificates.client_settings())
    session = session_of(context, listener)
    assert session.has_ticket
    assert is_resumed(context, listener, session)
    assert is_resumed(context, listener, session)


def test_tickets_leave_with_the_first_response(certificates: Certificates) -> None:
    """A client that only sends would reset its connection at the end, with unread tickets."""
    server = TlsEngine(server_context(certificates.server_settings()))
    client = TlsEngine(client_context(certificates.client_settings()), "localhost")
    shake_hands(client, server)
    client.write(b"request")
    carry(client, server)
    assert read_all(server) == b"request"
    assert server.outgoing() == b""
    server.write(b"response")
    assert carry(server, client) > 100
    assert read_all(client) == b"response"
    server.write(b"response")
    assert carry(server, client) < 100


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_the_certificate_of_a_client_is_checked_in_each_handshake(
    certificates: Certificates, client_auth: str
) -> None:
    listener = server_context(certificates.server_settings(client_auth))
    context = client_context(certificates.client_settings(certificates.client("carol")))
    session = session_of(context, listener)
    assert not session.has_ticket
    assert not is_resumed(context, listener, session)


def test_a_reload_of_the_certificates_ends_all_sessions(certificates: Certificates) -> None:
    settings = certificates.server_settings()
    context = client_context(certificates.client_settings())
    session = session_of(context, server_context(settings))
    assert not is_resumed(context, server_context(settings), session)
