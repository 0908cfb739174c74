"""DeleteAcls: delete the access rules (ACLs) that match filters.

v1: patterns (KIP-290)
v2: flexible
v3: user resources (KIP-373)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.acl_changes import matching_acls
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.acls import Acl, AclFilter, Pattern, check_known
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps

API = ApiKey.DELETE_ACLS

Answer = DeleteAclsResponse | Deferred[DeleteAclsResponse]


def handle(services: BrokerServices, context: RequestContext, request: DeleteAclsRequest) -> Answer:
    """Return the response. Raises ProtocolError if a type, an operation or a permission in a filter
    is UNKNOWN; this closes the connection, as in Kafka."""
    for chosen in request.filters:
        check_known(
            chosen.resource_type_filter,
            chosen.pattern_type_filter,
            chosen.operation,
            chosen.permission_type,
        )
    if not context.may(Operation.ALTER, CLUSTER):
        return _refused(
            request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        )
    if not services.settings.authorizer_class_name:
        return _refused(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    filters = [
        AclFilter(
            chosen.resource_type_filter,
            chosen.resource_name_filter,
            chosen.pattern_type_filter,
            chosen.principal_filter,
            chosen.host_filter,
            chosen.operation,
            chosen.permission_type,
        )
        for chosen in request.filters
    ]
    refusals = [_refusal(chosen) for chosen in filters]
    valid = [chosen for chosen, refused in zip(filters, refusals, strict=True) if refused is None]

    def deleted(chosen: list[list[tuple[Pattern, Acl]]]) -> Deferred[DeleteAclsResponse]:
        return services.spawn(_delete(services, context, request, refusals, chosen))

    def caught_up(failed: Refused | None) -> Answer:
        if failed is not None:
            return _refused(request, failed.code, failed.message)
        return then_ask(services.slices.run(_chosen(services.metadata.image, valid)), deleted)

    if not services.metadata.may_be_stale:
        return caught_up(None)
    # A filter must also match the rules that another broker has just added.
    return then_ask(services.spawn(services.metadata.catch_up()), caught_up)


def _chosen(
    image: ClusterImage, filters: Iterable[AclFilter]
) -> Steps[list[list[tuple[Pattern, Acl]]]]:
    found = []
    for chosen in filters:
        found.append((yield from matching_acls(image, chosen)))
    return found


async def _delete(
    services: BrokerServices,
    context: RequestContext,
    request: DeleteAclsRequest,
    refusals: Sequence[Refused | None],
    chosen: Sequence[Sequence[tuple[Pattern, Acl]]],
) -> DeleteAclsResponse:
    try:
        deleted = await services.metadata.users.delete_acls(chosen)
    except Refused as refused:
        return _refused(request, refused.code, refused.message)
    services.audit_trail.acls_removed(context.session, [row for rows in deleted for row in rows])
    results = iter(deleted)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(matching_acls=[_matching(*row) for row in next(results)])
            if refused is None
            else DeleteAclsFilterResult(refused.code, refused.message)
            for refused in refusals
        ]
    )


def _refusal(chosen: AclFilter) -> Refused | None:
    try:
        chosen.check()
    except Refused as refused:
        return refused
    return None


def _matching(pattern: Pattern, acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refused(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(code, message) for _ in request.filters]
    )
