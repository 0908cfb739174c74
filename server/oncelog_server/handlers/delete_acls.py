"""DeleteAcls: delete ACLs. The responses are those of a Kafka broker without an authorizer.

v1: patterns (KIP-290)
v2: flexible
v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.acl_codes import check_known
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.DELETE_ACLS


def handle(
    services: BrokerServices, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Return the response. Raises ProtocolError if a type, an operation or a permission in a filter
    is UNKNOWN; this closes the connection, as in Kafka."""
    for acl_filter in request.filters:
        check_known(
            acl_filter.resource_type_filter,
            acl_filter.pattern_type_filter,
            acl_filter.operation,
            acl_filter.permission_type,
        )
    code, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    if not context.may(Operation.ALTER, CLUSTER):
        code, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(code, message) for _ in request.filters]
    )
