"""OffsetDelete v0: forget a group's offsets of some partitions (KIP-496)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.group_access import caller, require_group
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation

API = ApiKey.OFFSET_DELETE
VERSIONS = range(0, 1)


def handle(
    node: Node, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred[OffsetDeleteResponse]:
    try:
        require_group(node, context, Operation.DELETE, request.group_id)
        return node.groups.run(
            request.group_id, lambda shard: shard.offset_delete(request, caller(node, context))
        )
    except Refused as refused:
        return OffsetDeleteResponse(error_code=refused.code)
