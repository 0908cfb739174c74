"""ListGroups v0-5: the groups that this broker coordinates.

v3 flexible. v4 filter by state (KIP-518). v5 filter by type (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.group.listing import GroupFilter
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.views.groups import GroupView

API = ApiKey.LIST_GROUPS


def handle(
    services: BrokerServices, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse | Steps[ListGroupsResponse]:
    try:
        services.groups.check_loaded()
    except Refused as refused:
        return ListGroupsResponse(error_code=refused.code)
    views = services.groups.views
    return when_large(views.count(), _steps(context, request, views.all()))


def _steps(
    context: RequestContext, request: ListGroupsRequest, groups: Iterator[GroupView]
) -> Steps[ListGroupsResponse]:
    wanted = GroupFilter(request.states_filter, request.types_filter)
    sees_all = context.may(Operation.DESCRIBE, CLUSTER, logged=False)
    found = []
    for group in groups:
        if wanted.has(group) and (
            sees_all or context.may(Operation.DESCRIBE, group=group.group_id, logged=False)
        ):
            found.append(ListedGroup(group.group_id, group.protocol_type, group.state, group.type))
        yield
    return ListGroupsResponse(groups=found)
