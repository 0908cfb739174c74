"""The message of a command that lacks a right on the cluster. It names the right, the principal,
and the command that allows it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

from oncelog_client.admin import Admin
from oncelog_client.cli.acl_options import add_command
from oncelog_client.cli.failures import Failed
from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePattern,
)
from oncelog_client.core.acl_explanation import WILDCARD
from oncelog_client.core.own_principal import own_principal
from oncelog_client.errors import AuthorizationError
from oncelog_protocol.errors import ErrorCode

T = TypeVar("T")

CLUSTER: Final = ResourcePattern(AclResourceType.CLUSTER, "kafka-cluster")


async def with_right(admin: Admin, operation: AclOperation, purpose: str, call: Awaitable[T]) -> T:
    """Return the result of a call that needs `operation` on the cluster. `purpose` says what the
    right allows, as "access rules are shown". Raises Failed if the principal lacks the right."""
    try:
        return await call
    except AuthorizationError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        principal = own_principal(vars(admin.config))
        raise Failed(_lacking(error.code.name, operation, purpose, principal)) from None


def _lacking(code: str, operation: AclOperation, purpose: str, principal: str | None) -> str:
    """Return the message. `principal` is None if it is unknown."""
    entry = AccessControlEntry(
        principal or "PRINCIPAL", WILDCARD, operation, AclPermissionType.ALLOW
    )
    client = "the principal of this client does" if principal is None else f"{principal} does"
    return (
        f"{code}: {purpose} to principals with {operation.name} on CLUSTER {CLUSTER.name}, which "
        f"{client} not have; an operator allows it by: {add_command(AclBinding(CLUSTER, entry))}"
    )
