"""Heartbeat v0-4: a member is alive.

v1 throttle time. v3 static members (KIP-345). v4 flexible.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation

API = ApiKey.HEARTBEAT


def handle(
    services: BrokerServices, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Deferred[HeartbeatResponse]:
    try:
        context.require(Operation.READ, group=request.group_id)
        return services.groups.run(
            request.group_id, lambda shard: shard.heartbeat(request, caller(services, context))
        )
    except Refused as refused:
        return HeartbeatResponse(error_code=refused.code)
