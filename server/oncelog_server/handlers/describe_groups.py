"""DescribeGroups v0-6: members, protocol and assignments of groups.

v3 authorized operations (KIP-430). v4 static members (KIP-345). v5 flexible. v6 GROUP_ID_NOT_FOUND
(KIP-1043).
"""

from __future__ import annotations

from typing import Any

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.slices import Steps, when_large

API = ApiKey.DESCRIBE_GROUPS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Deferred[DescribeGroupsResponse] | Steps[Any]:
    return when_large(len(request.groups), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeGroupsRequest
) -> Steps[DescribeGroupsResponse | Deferred[DescribeGroupsResponse]]:
    # Each group once, because the response has all its members.
    group_ids = dict.fromkeys(request.groups)
    answers = []
    for group_id in group_ids:
        answers.append(_describe(services, context, request, group_id))
        yield
    return then(gather(answers), lambda groups: DescribeGroupsResponse(groups=groups))


def _describe(
    services: BrokerServices, context: RequestContext, request: DescribeGroupsRequest, group_id: str
) -> DescribedGroup | Deferred[DescribedGroup]:
    try:
        context.require(Operation.DESCRIBE, group=group_id)
        answer = services.groups.describe(group_id, caller(services, context))
    except Refused as refused:
        return DescribedGroup(error_code=refused.code, group_id=group_id)

    def with_operations(group: DescribedGroup) -> DescribedGroup:
        if request.include_authorized_operations:
            resource = Resource(ResourceType.GROUP, group_id)
            group.authorized_operations = context.authorized_operations(resource)
        return group

    return then(answer, with_operations)
