"""The context of a request: its session, its rights, API version, client id."""

from __future__ import annotations

import msgspec

from oncelog_server.requests.session import Session
from oncelog_server.security import access
from oncelog_server.security.authorizer import Authorizer
from oncelog_server.security.resources import ANONYMOUS


class RequestContext(msgspec.Struct):
    """The context of one request. `keeps_frame`: True if the request's bytes stay in memory after
    the call of the handler."""

    session: Session
    authorizer: Authorizer
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    keeps_frame: bool = False

    # The functions are attributes of the class. Methods that call them would cost each request one
    # more call.
    require = access.require
    may = access.may
    may_any = access.may_any
    authorized_operations = access.authorized_operations

    @property
    def client_address(self) -> str:
        """Return the address as Kafka shows it: `/127.0.0.1`."""
        return self.session.address

    @property
    def principal(self) -> str:
        """Return the principal as text, an empty text if it is User:ANONYMOUS."""
        principal = self.session.principal
        return "" if principal == ANONYMOUS else str(principal)

    @property
    def listener_name(self) -> str:
        return self.session.listener
