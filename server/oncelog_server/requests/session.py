"""The session of a connection: the identity under which its requests are served.

A connection gets its session at the end of its handshake and serves no request before. The rows of
HANDSHAKE are the steps that each listener's security protocol requires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from oncelog_server.security.hosts import host_text
from oncelog_server.security.resources import ANONYMOUS, Principal

# Kafka's name and version of a client that sends none.
UNKNOWN_SOFTWARE: Final = "unknown"


class ClientSoftware:
    """The name and version of a client's software, from its last ApiVersions (KIP-511)."""

    __slots__ = ("name", "version")

    def __init__(self) -> None:
        self.name = self.version = UNKNOWN_SOFTWARE


def _ignore(throttle_ms: int) -> None:
    """Do not mute: there is no connection."""


class Session(msgspec.Struct, frozen=True):
    """The client of a connection after its handshake. `host` is the client's address as Java writes
    it. `has_hung_up` returns True if the client has closed the connection; it does not wait. `mute`
    serves no further request for a time in ms, because the client has exceeded a quota (KIP-219). A
    request keeps the session with which it arrived."""

    principal: Principal
    host: str
    listener: str
    has_hung_up: Callable[[], bool]
    software: ClientSoftware = msgspec.field(default_factory=ClientSoftware)
    mute: Callable[[int], None] = _ignore

    @property
    def address(self) -> str:
        """Return the address as Kafka shows it: `/127.0.0.1`."""
        return f"/{self.host}"


class Stage(StrEnum):
    HANDSHAKE = "handshake"
    READY = "ready"


class HandshakeEvent(StrEnum):
    TRANSPORT_OPEN = "transport open"


# The next stage, and the principal of the session that begins with it. A missing row is an error,
# because the listener does not expect that step.
HANDSHAKE: Final[Mapping[tuple[Stage, HandshakeEvent], tuple[Stage, Principal]]] = {
    # PLAINTEXT requires no authentication.
    (Stage.HANDSHAKE, HandshakeEvent.TRANSPORT_OPEN): (Stage.READY, ANONYMOUS),
}


class Handshake:
    """The stages of one connection on one listener."""

    __slots__ = ("_listener", "stage")

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self.stage = Stage.HANDSHAKE

    def transport_open(
        self,
        host: str,
        has_hung_up: Callable[[], bool],
        mute: Callable[[int], None] = _ignore,
    ) -> Session:
        """Return the session. Raises KeyError if the transport was open already."""
        self.stage, principal = HANDSHAKE[self.stage, HandshakeEvent.TRANSPORT_OPEN]
        return Session(principal, host_text(host), self._listener, has_hung_up, mute=mute)
