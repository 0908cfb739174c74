"""Access rules (ACLs): create, describe, delete (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable

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
from oncelog_client.errors import check
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from oncelog_protocol.messages.delete_acls import (
    DeleteAclsFilter,
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
    request = DeleteAclsRequest([DeleteAclsFilter(*chosen) for chosen in filters])

    async def attempt() -> DeleteAclsResponse:
        response = await cluster.call_controller(request, DeleteAclsResponse)
        for row in response.filter_results:
            check(row.error_code, row.error_message or "")
            for acl in row.matching_acls:
                check(acl.error_code, acl.error_message or "")
        return response

    response = await cluster.retry(attempt, timeout_ms)
    deleted = [
        _binding(
            (acl.resource_type, acl.resource_name, acl.pattern_type),
            (acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for row in response.filter_results
        for acl in row.matching_acls
    ]
    # Two filters may choose the same rule.
    return list(dict.fromkeys(deleted))


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
