"""ListGroups v0-5: every group this broker coordinates.

v3 flexible. v4 filter by state (KIP-518). v5 filter by type (KIP-848).
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.network.request_context import RequestContext
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.LIST_GROUPS


Answered = ListGroupsResponse | Steps[ListGroupsResponse]


def handle(
    services: BrokerServices, context: RequestContext, request: ListGroupsRequest
) -> Answered | Deferred[Answered]:
    try:
        services.groups.check_loaded()
    except Refused as refused:
        return ListGroupsResponse(error_code=refused.code)
    of_shards = [
        shard.list_groups(request.states_filter, request.types_filter).response
        for shard in services.groups.shards()
    ]
    sees_all = context.may(Operation.DESCRIBE, CLUSTER)

    def visible(group: ListedGroup) -> bool:
        return sees_all or context.may(Operation.DESCRIBE, group=group.group_id)

    def steps(lists: list[list[ListedGroup]]) -> Steps[ListGroupsResponse]:
        found = []
        for groups in lists:
            for group in groups:
                if visible(group):
                    found.append(group)
                yield
        return ListGroupsResponse(groups=found)

    return then(gather(of_shards), lambda lists: when_large(sum(map(len, lists)), steps(lists)))
