"""CreateAcls: add access rules (ACLs), which grant or deny rights.

v1: patterns (KIP-290)
v2: flexible
v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.acls import Acl, Pattern, check_known, is_specific, new_acl
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.CREATE_ACLS


def handle(
    services: BrokerServices, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | Deferred[CreateAclsResponse]:
    """Return the response. Raises ProtocolError if a type, operation or permission is UNKNOWN; this
    closes the connection, as in Kafka."""
    for creation in request.creations:
        check_known(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )
    if not context.may(Operation.ALTER, CLUSTER):
        return _refused(
            request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        )
    if not services.settings.authorizer_class_name:
        return _refused(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if not all(
        is_specific(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )
        for creation in request.creations
    ):
        # Kafka cannot make a rule of such codes, and fails the whole request.
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return services.spawn(_create(services, context, request))


async def _create(
    services: BrokerServices, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    outcomes = [_checked(creation) for creation in request.creations]
    created = [row for row in outcomes if not isinstance(row, Refused)]
    failed: Refused | None = None
    try:
        await services.metadata.users.create_acls(created)
    except Refused as refused:
        failed = refused
    else:
        services.audit_trail.acls_added(context.session, created)
    refusals = [row if isinstance(row, Refused) else failed for row in outcomes]
    return CreateAclsResponse(results=[_result(refused) for refused in refusals])


def _checked(creation: AclCreation) -> tuple[Pattern, Acl] | Refused:
    try:
        return new_acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    except Refused as refused:
        return refused


def _result(refused: Refused | None) -> AclCreationResult:
    code, message = (ErrorCode.NONE, "") if refused is None else (refused.code, refused.message)
    return AclCreationResult(code, message)


def _refused(
    request: CreateAclsRequest, code: ErrorCode, message: str | None
) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, message) for _ in request.creations])
