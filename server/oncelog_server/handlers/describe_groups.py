"""DescribeGroups v0-6: members, protocol and assignments of groups.

v3 authorized operations (KIP-430). v4 static members (KIP-345). v5 flexible. v6 GROUP_ID_NOT_FOUND
(KIP-1043).
"""

from __future__ import annotations

from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.slices import Steps, when_large
from oncelog_server.views.groups import GroupDetails

API = ApiKey.DESCRIBE_GROUPS

# The state of a group that does not exist.
_DEAD: Final = "Dead"
_NOT_FOUND_SINCE: Final = 6


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Deferred[DescribeGroupsResponse] | Steps[Any]:
    return when_large(len(request.groups), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeGroupsRequest
) -> Steps[DescribeGroupsResponse | Deferred[DescribeGroupsResponse]]:
    # A group that the request repeats is described only once: a description lists all members, so
    # repetitions would make the response large.
    group_ids = dict.fromkeys(request.groups)
    described = []
    for group_id in group_ids:
        described.append(_describe(services, context, request, group_id))
        yield
    return then(gather(described), lambda groups: DescribeGroupsResponse(groups=groups))


def _describe(
    services: BrokerServices, context: RequestContext, request: DescribeGroupsRequest, group_id: str
) -> DescribedGroup | Deferred[DescribedGroup]:
    try:
        context.require(Operation.DESCRIBE, group=group_id)
        found = services.groups.describe(group_id)
    except Refused as refused:
        return DescribedGroup(error_code=refused.code, group_id=group_id)

    def described(details: GroupDetails | None) -> DescribedGroup:
        group = (
            _missing(group_id, context.api_version) if details is None else described_group(details)
        )
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            resource = Resource(ResourceType.GROUP, group_id)
            group.authorized_operations = context.authorized_operations(resource)
        return group

    return then(found, described)


def _missing(group_id: str, api_version: int) -> DescribedGroup:
    group = DescribedGroup(group_id=group_id, group_state=_DEAD)
    if api_version >= _NOT_FOUND_SINCE:
        group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        group.error_message = f"Group {group_id} not found."
    return group


def described_group(details: GroupDetails) -> DescribedGroup:
    return DescribedGroup(
        group_id=details.group_id,
        group_state=details.state,
        protocol_type=details.protocol_type,
        protocol_data=details.protocol_name,
        members=[
            DescribedGroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata,
                member.assignment,
            )
            for member in details.members
        ],
    )
