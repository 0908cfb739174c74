"""The handshake of one connection: TLS, then SASL, until its client is authenticated.

The connection serves no requests of its client before the end. A client may authenticate again
(KIP-368).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from oncelog_server.network.admission import Admission
from oncelog_server.requests.response import Serve
from oncelog_server.requests.session import Handshake, Session, Stage
from oncelog_server.security.resources import Principal

# A connection must be authenticated within this time (scenario H7).
AUTHENTICATION_MS: Final = 10_000


class Served(Protocol):
    """The connection of a handshake. `session` is None after its end."""

    session: Session | None

    def serve_by(self, serve: Serve, max_frame_bytes: int | None = None) -> None:
        """Serve all further frames by `serve`. `max_frame_bytes` is their new limit, None for no
        change."""
        ...

    def drain(self) -> None:
        """Close the connection when the sent responses have left."""
        ...


class ConnectionHandshake:
    """The demands of `admission` on one client. `dispatch` serves the frames of an authenticated
    client, which have up to `max_request_bytes`. Times are monotonic, in ms."""

    __slots__ = (
        "_admission",
        "_connection",
        "_dispatch",
        "_max_request_bytes",
        "_stages",
        "began_ms",
    )

    def __init__(
        self,
        connection: Served,
        admission: Admission,
        dispatch: Serve,
        max_request_bytes: int,
        opened_ms: int,
    ) -> None:
        self._connection = connection
        self._admission = admission
        self._dispatch = dispatch
        self._max_request_bytes = max_request_bytes
        # None while the connection waits for its admission by the rate of its listener.
        self.began_ms: int | None = opened_ms
        self._stages = Handshake(admission.listener, admission.protocol)

    @property
    def is_complete(self) -> bool:
        return self._stages.stage is Stage.READY

    def is_late(self, now_ms: int) -> bool:
        """Return True if the client has not authenticated in time."""
        began_ms = self.began_ms
        if began_ms is None or self.is_complete:
            return False
        return now_ms - began_ms > AUTHENTICATION_MS

    def transport_open(
        self, host: str, has_hung_up: Callable[[], bool], mute: Callable[[int], None]
    ) -> Session:
        """Return the session of the new connection, which is anonymous."""
        return self._stages.transport_open(host, has_hung_up, mute)

    def tls_established(self, certificate: bytes | None) -> None:
        """Begin the next stage after TLS. `certificate` is the client's in DER, if it has one.
        Raises AuthenticationRefused if its name is refused."""
        session = self._connection.session
        assert session is not None
        principal = self._admission.principal_of(certificate)
        self._connection.session = self._stages.tls_established(session, principal)
        self.begin_sasl()

    def begin_sasl(self) -> None:
        """Serve frames by SASL, if that is the next stage."""
        if self._stages.stage is Stage.SASL:
            authentication = self._admission.new_authentication(self, self._dispatch)
            self._connection.serve_by(
                authentication.serve, self._admission.max_unauthenticated_bytes
            )

    def refused(self, reason: str) -> None:
        """Log that the client is refused."""
        if self._connection.session is not None:
            self._admission.refused(self._connection.session, reason)

    # --- the peer of SASL

    def served_by(self, serve: Serve) -> None:
        # The limit holds in each authentication, as in Kafka's SaslServerAuthenticator.
        self._connection.serve_by(serve, self._admission.max_unauthenticated_bytes)

    def authenticated(self, principal: Principal, serve: Serve) -> None:
        session = self._connection.session
        assert session is not None
        self._connection.session = self._stages.authenticated(session, principal)
        self._connection.serve_by(serve, self._max_request_bytes)

    def session_expired(self) -> None:
        """Count a session that the client did not renew in time."""
        self._admission.expired += 1

    def drain(self) -> None:
        self._connection.drain()
