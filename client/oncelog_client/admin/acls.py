"""Access rules (ACLs): create, describe, delete (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_client.admin.row_retries import retry_rows, row_error
from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.errors import KafkaError, RetriableError, check
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from oncelog_protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def create_acls(cluster: Cluster, bindings: Iterable[AclBinding], timeout_ms: int) -> None:
    request = CreateAclsRequest([_creation(binding) for binding in bindings])

    async def attempt() -> None:
        response = await cluster.call_controller(request, CreateAclsResponse)
        for row in response.results:
            check(row.error_code, row.error_message or "")

    await cluster.retry(attempt, timeout_ms)


async def describe_acls(
    cluster: Cluster, chosen: AclBindingFilter, timeout_ms: int
) -> list[AclBinding]:
    request = DescribeAclsRequest(*chosen)

    async def attempt() -> DescribeAclsResponse:
        response = await cluster.call_any(request, DescribeAclsResponse)
        check(response.error_code, response.error_message or "")
        return response

    response = await cluster.retry(attempt, timeout_ms)
    return [
        _binding(
            (found.resource_type, found.resource_name, found.pattern_type),
            (acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for found in response.resources
        for acl in found.acls
    ]


async def delete_acls(
    cluster: Cluster, filters: Iterable[AclBindingFilter], timeout_ms: int
) -> list[AclBinding]:
    deleted: list[AclBinding] = []

    async def attempt(
        rows: Sequence[tuple[int, DeleteAclsFilter]],
    ) -> list[tuple[int, KafkaError | None]]:
        request = DeleteAclsRequest([chosen for _, chosen in rows])
        response = await cluster.call_controller(request, DeleteAclsResponse)
        deleted.extend(
            _binding(
                (acl.resource_type, acl.resource_name, acl.pattern_type),
                (acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for row in response.filter_results
            for acl in row.matching_acls
            if not acl.error_code
        )
        # The results have the order of the filters.
        return [
            (number, _filter_error(row))
            for (number, _), row in zip(rows, response.filter_results, strict=False)
        ]

    rows = enumerate(DeleteAclsFilter(*chosen) for chosen in filters)
    await retry_rows(cluster, rows, attempt, timeout_ms)
    # Two filters may choose the same rule.
    return list(dict.fromkeys(deleted))


def _filter_error(row: DeleteAclsFilterResult) -> KafkaError | None:
    """Return the error of a filter, or of a rule that it matches. A RetriableError comes first,
    because the filter is then applied again."""
    errors = [
        error
        for error in (
            row_error(row.error_code, row.error_message or ""),
            *(row_error(acl.error_code, acl.error_message or "") for acl in row.matching_acls),
        )
        if error is not None
    ]
    return min(errors, key=lambda error: not isinstance(error, RetriableError), default=None)


def _creation(binding: AclBinding) -> AclCreation:
    pattern, entry = binding
    return AclCreation(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def _binding(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> AclBinding:
    resource_type, name, pattern_type = pattern
    principal, host, operation, permission = entry
    return AclBinding(
        ResourcePattern(AclResourceType(resource_type), name, PatternType(pattern_type)),
        AccessControlEntry(principal, host, AclOperation(operation), AclPermissionType(permission)),
    )
