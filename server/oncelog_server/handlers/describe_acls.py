"""DescribeAcls: list the access rules (ACLs) that match a filter.

v1: patterns (KIP-290)
v2: flexible
v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.acl_changes import matching_acls
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.acls import AclFilter, Pattern, check_known
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps

API = ApiKey.DESCRIBE_ACLS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | Steps[DescribeAclsResponse]:
    """Return the response. Raises ProtocolError if a type, the operation or the permission in the
    filter is UNKNOWN; this closes the connection, as in Kafka."""
    check_known(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not services.settings.authorizer_class_name:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    chosen = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    return _steps(services.metadata.image, chosen)


def _steps(image: ClusterImage, chosen: AclFilter) -> Steps[DescribeAclsResponse]:
    found: dict[Pattern, DescribeAclsResource] = {}
    for pattern, acl in (yield from matching_acls(image, chosen)):
        yield
        if pattern not in found:
            found[pattern] = DescribeAclsResource(pattern.type, pattern.name, pattern.pattern_type)
        found[pattern].acls.append(
            AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        )
    return DescribeAclsResponse(resources=list(found.values()))
