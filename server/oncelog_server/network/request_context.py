"""The context of a request: principal, connection, API version, client id."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from oncelog_server.security.authorizer import Principal


class Peer(msgspec.Struct, frozen=True):
    """The client of one connection, the same for all its requests. `has_hung_up` asks the socket,
    without waiting."""

    principal: Principal
    address: str
    listener: str
    has_hung_up: Callable[[], bool]


class RequestContext(msgspec.Struct):
    """The context of one request. `keeps_frame`: its bytes outlive the call that serves it."""

    peer: Peer
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    keeps_frame: bool = False

    @property
    def principal(self) -> Principal:
        return self.peer.principal

    @property
    def client_address(self) -> str:
        """Return the address as Kafka shows it: `/127.0.0.1`."""
        return self.peer.address

    @property
    def listener_name(self) -> str:
        return self.peer.listener
