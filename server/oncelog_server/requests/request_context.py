"""The context of a request: its session, its rights, API version, client id."""

from __future__ import annotations

import msgspec

from oncelog_server.requests.session import Session
from oncelog_server.security import access
from oncelog_server.security.authorizer import Authorizer


class RequestContext(msgspec.Struct):
    """The context of one request. `keeps_frame`: the request's bytes outlive the call that serves
    it."""

    session: Session
    authorizer: Authorizer
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    keeps_frame: bool = False

    # Attributes of the class save each request a call, compared with methods that call these
    # functions.
    require = access.require
    may = access.may
    may_any = access.may_any
    authorized_operations = access.authorized_operations

    @property
    def client_address(self) -> str:
        """Return the address as Kafka shows it: `/127.0.0.1`."""
        return self.session.address

    @property
    def listener_name(self) -> str:
        return self.session.listener
