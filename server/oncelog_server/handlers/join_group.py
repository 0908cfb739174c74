"""JoinGroup v0-9: become a member, wait for the others.

v1 rebalance timeout. v4 a new member first requests a member id (KIP-394). v5 static members
(KIP-345). v6 flexible. v7 protocol type (KIP-559). v8 reason (KIP-800). v9 the leader may skip the
assignment (KIP-814).
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.group import join_refusal
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation

API = ApiKey.JOIN_GROUP


def handle(
    services: BrokerServices, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
    try:
        context.require(Operation.READ, group=request.group_id)
        return services.groups.run(
            request.group_id, lambda shard: shard.join_group(request, caller(services, context))
        )
    except Refused as refused:
        return join_refusal(refused.code, context.api_version, request.member_id)
