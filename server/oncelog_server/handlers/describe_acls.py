"""DescribeAcls: list ACLs. The responses are those of a Kafka broker without an authorizer.

v1: patterns (KIP-290)
v2: flexible
v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.acl_codes import check_known
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.DESCRIBE_ACLS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
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
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )
