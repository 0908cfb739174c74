"""LeaveGroup v0-5.

v3 several members at once (KIP-345). v4 flexible. v5 reason (KIP-800).
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation

API = ApiKey.LEAVE_GROUP


def handle(
    services: BrokerServices, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Deferred[LeaveGroupResponse]:
    try:
        context.require(Operation.READ, group=request.group_id)
        return services.groups.run(
            request.group_id, lambda shard: shard.leave_group(request, caller(services, context))
        )
    except Refused as refused:
        return LeaveGroupResponse(error_code=refused.code)
