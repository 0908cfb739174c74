"""Authorization and caller of group requests."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker_services import BrokerServices
from oncelog_server.group.moment import Caller
from oncelog_server.network.request_context import RequestContext
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation, Resource, ResourceType


def require_group(
    services: BrokerServices, context: RequestContext, operation: Operation, group_id: str
) -> None:
    """Raises Refused."""
    resource = Resource(ResourceType.GROUP, group_id)
    if not services.authorizer.authorize(context.principal, operation, resource):
        raise Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def caller(services: BrokerServices, context: RequestContext) -> Caller:
    return Caller(
        now_ms=services.clock.monotonic_ms(),
        wall_ms=services.clock.now_ms(),
        api_version=context.api_version,
        client_id=context.client_id,
        client_host=context.client_address,
    )
