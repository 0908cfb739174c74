"""The message of a command that lacks a right. It names the right, the principal, and for a right
on the cluster the command that allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog_client.errors import AuthorizationError
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.core.client_config import ClientConfig

_NEEDS: Final = "this needs"
_RESOURCES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TOPIC",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GROUP",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TRANSACTIONAL_ID",
}


def name_missing_right(error: Exception, config: ClientConfig, operation: str = "") -> None:
    """Replace the message of an AuthorizationError by a message with the missing right. Other
    errors stay, and so does a message that has the right already. `operation` is what the command
    needs on the resource. The default is the operation in the error."""
    if not isinstance(error, AuthorizationError) or _NEEDS in error.message:
        return
    operation = operation or error.operation
    if not operation:
        return
    from oncelog_client.core.own_principal import own_principal

    principal = own_principal(vars(config))
    client = "the principal of this client does" if principal is None else f"{principal} does"
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        right = f"{operation} on CLUSTER {_cluster_name()}"
        way_out = f"; an operator allows it by: {_way_out(operation, principal)}"
        error.reword(f"{_NEEDS} {right}, which {client} not have{way_out}")
    elif error.code in _RESOURCES:
        right = f"{operation} on {_RESOURCES[error.code]}"
        about = f"{error.message.removesuffix('.')}: " if error.message else ""
        error.reword(f"{about}{_NEEDS} {right}, which {client} not have")


def text_of(error: Exception, config: ClientConfig) -> str:
    """Return the text of an error that the command shows beside others."""
    name_missing_right(error, config)
    return str(error)


def _cluster_name() -> str:
    from oncelog_client.core.acl_bindings import CLUSTER_NAME

    return CLUSTER_NAME


def _way_out(operation: str, principal: str | None) -> str:
    """Return the command that allows the operation on the cluster."""
    from oncelog_client.cli.acl_options import add_command
    from oncelog_client.core.acl_bindings import (
        AccessControlEntry,
        AclBinding,
        AclOperation,
        AclPermissionType,
        AclResourceType,
        ResourcePattern,
    )
    from oncelog_client.core.acl_explanation import WILDCARD

    cluster = ResourcePattern(AclResourceType.CLUSTER, _cluster_name())
    entry = AccessControlEntry(
        principal or "PRINCIPAL", WILDCARD, AclOperation[operation], AclPermissionType.ALLOW
    )
    return add_command(AclBinding(cluster, entry))
