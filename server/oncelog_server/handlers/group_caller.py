"""The caller of a group request."""

from __future__ import annotations

from oncelog_server.broker_services import BrokerServices
from oncelog_server.group.moment import Caller
from oncelog_server.requests.request_context import RequestContext


def caller(services: BrokerServices, context: RequestContext) -> Caller:
    return Caller(
        now_ms=services.clock.monotonic_ms(),
        wall_ms=services.clock.now_ms(),
        api_version=context.api_version,
        client_id=context.client_id,
        client_host=context.client_address,
        principal=context.principal,
    )
