"""The context of a request: its session, its rights, API version, client id."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from oncelog_server.requests.request_meter import RequestMeter
from oncelog_server.requests.session import Session
from oncelog_server.security import access
from oncelog_server.security.authorizer import Authorizer
from oncelog_server.security.resources import ANONYMOUS


class RequestContext(msgspec.Struct):
    """The context of one request. `keeps_frame`: True if the request's bytes stay in memory after
    the call of the handler. `meter` is None while no quota of clients is defined."""

    session: Session
    authorizer: Authorizer
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    keeps_frame: bool = False
    meter: RequestMeter | None = None

    # The functions are attributes of the class. Methods that call them would cost each request one
    # more call.
    require = access.require
    may = access.may
    may_any = access.may_any
    authorized_operations = access.authorized_operations

    def permits(self, *, is_strict: bool) -> Callable[[str, int], None] | None:
        """Return the function that takes permits to create or delete partitions, None without a
        quota. A request that is not strict is throttled only afterwards (KIP-599)."""
        return None if self.meter is None else self.meter.permits(is_strict=is_strict)

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
