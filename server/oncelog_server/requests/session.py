"""The session of a connection: the identity under which its requests are served.

A connection serves no request before its handshake has ended. The rows of HANDSHAKE are the steps
that each listener's security protocol requires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from oncelog_protocol.security.hosts import host_text
from oncelog_server.partition.writable_topics import WritableTopics
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS, Principal

# The name and the version that Kafka shows for a client that has sent neither.
UNKNOWN_SOFTWARE: Final = "unknown"


class ClientSoftware:
    """The name and version of a client's software, from its last ApiVersions (KIP-511)."""

    __slots__ = ("name", "version")

    def __init__(self) -> None:
        self.name = self.version = UNKNOWN_SOFTWARE


def _ignore(throttle_ms: int) -> None:
    """Do not mute: there is no connection."""


class Session(msgspec.Struct, frozen=True):
    """The client of a connection. `host` is the client's address as Java writes it. `has_hung_up`
    returns True if the client has closed the connection; it does not wait. `mute(ms)` stops the
    service of this connection for that time, because the client has exceeded a quota (KIP-219).
    `is_established` is False until the client is authenticated; until then no request counts
    against a quota. A request keeps the session with which it arrived."""

    principal: Principal
    host: str
    listener: str
    has_hung_up: Callable[[], bool]
    software: ClientSoftware = msgspec.field(default_factory=ClientSoftware)
    mute: Callable[[int], None] = _ignore
    is_established: bool = True
    writable: WritableTopics = msgspec.field(default_factory=WritableTopics)

    @property
    def address(self) -> str:
        """Return the address as Kafka shows it: `/127.0.0.1`."""
        return f"/{self.host}"


class Stage(StrEnum):
    OPENING = "opening"
    TLS = "tls"
    SASL = "sasl"
    READY = "ready"


class HandshakeEvent(StrEnum):
    TRANSPORT_OPEN = "transport open"
    TLS_ESTABLISHED = "tls established"
    AUTHENTICATED = "authenticated"


_Step = tuple[SecurityProtocol, Stage, HandshakeEvent]

# The next stage. A missing row is an error, because the listener does not expect that step. An
# authenticated client may authenticate again (KIP-368).
HANDSHAKE: Final[Mapping[_Step, Stage]] = {
    (SecurityProtocol.PLAINTEXT, Stage.OPENING, HandshakeEvent.TRANSPORT_OPEN): Stage.READY,
    (SecurityProtocol.SSL, Stage.OPENING, HandshakeEvent.TRANSPORT_OPEN): Stage.TLS,
    (SecurityProtocol.SSL, Stage.TLS, HandshakeEvent.TLS_ESTABLISHED): Stage.READY,
    (SecurityProtocol.SASL_PLAINTEXT, Stage.OPENING, HandshakeEvent.TRANSPORT_OPEN): Stage.SASL,
    (SecurityProtocol.SASL_PLAINTEXT, Stage.SASL, HandshakeEvent.AUTHENTICATED): Stage.READY,
    (SecurityProtocol.SASL_PLAINTEXT, Stage.READY, HandshakeEvent.AUTHENTICATED): Stage.READY,
    (SecurityProtocol.SASL_SSL, Stage.OPENING, HandshakeEvent.TRANSPORT_OPEN): Stage.TLS,
    (SecurityProtocol.SASL_SSL, Stage.TLS, HandshakeEvent.TLS_ESTABLISHED): Stage.SASL,
    (SecurityProtocol.SASL_SSL, Stage.SASL, HandshakeEvent.AUTHENTICATED): Stage.READY,
    (SecurityProtocol.SASL_SSL, Stage.READY, HandshakeEvent.AUTHENTICATED): Stage.READY,
}


class Handshake:
    """The stages of one connection on one listener. Each event raises KeyError if the security
    protocol does not expect it."""

    __slots__ = ("_listener", "_protocol", "stage")

    def __init__(
        self, listener: str, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self.stage = Stage.OPENING

    def transport_open(
        self,
        host: str,
        has_hung_up: Callable[[], bool],
        mute: Callable[[int], None] = _ignore,
    ) -> Session:
        """Return the session of a new connection, which is anonymous."""
        self._go(HandshakeEvent.TRANSPORT_OPEN)
        return Session(
            ANONYMOUS,
            host_text(host),
            self._listener,
            has_hung_up,
            mute=mute,
            is_established=self._is_ready,
        )

    def tls_established(self, session: Session, principal: Principal) -> Session:
        """Return the session with the principal of the client's certificate."""
        self._go(HandshakeEvent.TLS_ESTABLISHED)
        return self._identified(session, principal)

    def authenticated(self, session: Session, principal: Principal) -> Session:
        """Return the session with the principal of SASL."""
        self._go(HandshakeEvent.AUTHENTICATED)
        return self._identified(session, principal)

    def _identified(self, session: Session, principal: Principal) -> Session:
        """Return the session of this stage with its principal, without the stored rights of the
        previous principal."""
        return msgspec.structs.replace(
            session,
            principal=principal,
            is_established=self._is_ready,
            writable=WritableTopics(),
        )

    @property
    def _is_ready(self) -> bool:
        return self.stage is Stage.READY

    def _go(self, event: HandshakeEvent) -> None:
        self.stage = HANDSHAKE[self._protocol, self.stage, event]
