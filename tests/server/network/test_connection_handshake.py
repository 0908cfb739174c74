"""The limit of frames at each step of the authentication of a connection."""

from __future__ import annotations

from typing import Any, cast

from oncelog_server.network.connection_handshake import ConnectionHandshake
from oncelog_server.requests.response import Serve
from oncelog_server.requests.session import Session
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS, Principal

SMALL, LARGE = 1_000, 1_000_000


class Connection:
    """Notes the limit of the frames that are served next."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.limits: list[int | None] = []

    def serve_by(self, serve: Serve, max_frame_bytes: int | None = None) -> None:
        self.limits.append(max_frame_bytes)

    def drain(self) -> None: ...


class Admission:
    """The admission of a listener with SASL."""

    listener, protocol = "EXTERNAL", SecurityProtocol.SASL_PLAINTEXT
    max_unauthenticated_bytes = SMALL

    def new_authentication(self, peer: object, serve: Serve) -> Any:
        return self

    def serve(self, frame: memoryview, session: Session) -> None: ...

    def principal_of(self, certificate: bytes | None) -> Principal:
        return ANONYMOUS


def test_a_new_authentication_has_the_limit_of_the_first() -> None:
    """Otherwise a client may send a token of socket.request.max.bytes (KIP-368)."""
    connection, admission = Connection(), Admission()
    serve: Serve = cast(Any, admission.serve)
    handshake = ConnectionHandshake(connection, cast(Any, admission), serve, LARGE, 0)
    connection.session = handshake.transport_open("127.0.0.1", bool, lambda _: None)
    handshake.begin_sasl()
    handshake.authenticated(Principal("User", "alice"), serve)
    handshake.served_by(serve)
    handshake.authenticated(Principal("User", "alice"), serve)
    assert connection.limits == [SMALL, LARGE, SMALL, LARGE]
