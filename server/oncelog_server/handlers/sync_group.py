"""SyncGroup v0-5: brings the leader's assignment to every member.

v3 static members (KIP-345). v4 flexible. v5 protocol type and name (KIP-559).
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation

API = ApiKey.SYNC_GROUP

# From this version on, a request has a protocol type and a protocol name.
PROTOCOL_SINCE: Final = 5


def handle(
    services: BrokerServices, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Deferred[SyncGroupResponse]:
    try:
        if context.api_version >= PROTOCOL_SINCE and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            # Kafka checks this before the rights. The response says nothing about the group.
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        context.require(Operation.READ, group=request.group_id)
        return services.groups.run(
            request.group_id, lambda shard: shard.sync_group(request, caller(services, context))
        )
    except Refused as refused:
        return SyncGroupResponse(error_code=refused.code)
