"""The demands of a listener on its clients before it serves their requests: TLS, then SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from oncelog_server.requests.response import Serve
from oncelog_server.requests.session import Session
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS, Principal

if TYPE_CHECKING:
    # A broker with PLAINTEXT listeners alone imports none of these.
    from oncelog_protocol.tls.engine import TlsEngine
    from oncelog_server.requests.authentication import Authentication, Peer


class Admission(Protocol):
    """The demands of one listener."""

    listener: str
    protocol: SecurityProtocol
    max_unauthenticated_bytes: int
    # Clients that were refused since the start, and sessions that clients did not renew in time.
    failures: int
    expired: int

    @property
    def certificate_expires_ms(self) -> int | None:
        """Return the time at which the listener's certificate or that of an issuer expires, in ms
        since the epoch. Return None without TLS."""
        ...

    def new_tls(self) -> TlsEngine:
        """Return the broker's side of a new TLS connection."""
        ...

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client's certificate in DER. Raises AuthenticationRefused."""
        ...

    def new_authentication(self, peer: Peer, serve: Serve) -> Authentication:
        """Return the SASL authentication of a new connection."""
        ...

    def refused(self, session: Session, reason: str) -> None:
        """Log that a client was refused."""
        ...


class PlaintextAdmission:
    """The admission of a PLAINTEXT listener, which asks for nothing."""

    protocol = SecurityProtocol.PLAINTEXT
    max_unauthenticated_bytes = failures = expired = 0
    certificate_expires_ms = None

    def __init__(self, listener: str) -> None:
        self.listener = listener

    def new_tls(self) -> TlsEngine:
        raise LookupError(f"the listener {self.listener} has no TLS")

    def principal_of(self, certificate: bytes | None) -> Principal:
        return ANONYMOUS

    def new_authentication(self, peer: Peer, serve: Serve) -> Authentication:
        raise LookupError(f"the listener {self.listener} has no SASL")

    def refused(self, session: Session, reason: str) -> None:
        raise LookupError(f"the listener {self.listener} refuses no client")
