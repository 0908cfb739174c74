"""CreateAcls, which would grant or deny rights. It is refused, with the response of a Kafka broker
without an authorizer.

v1: patterns (KIP-290)
v2: flexible
v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.acl_codes import check_known
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.CREATE_ACLS


def handle(
    services: BrokerServices, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Return the response. Raises ProtocolError if a type, operation or permission is UNKNOWN; this
    closes the connection, as in Kafka."""
    for creation in request.creations:
        check_known(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )
    code, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    if not context.may(Operation.ALTER, CLUSTER):
        code, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    return CreateAclsResponse(results=[AclCreationResult(code, message) for _ in request.creations])
