"""The authorized operations of a principal on a resource, as the bits of KIP-430."""

from __future__ import annotations

from typing import Final

from oncelog_server.broker_services import BrokerServices
from oncelog_server.network.request_context import RequestContext
from oncelog_server.security.authorizer import Operation, Resource, ResourceType

NOT_ASKED_FOR: Final = -(2**31)

# Kafka's AclEntry.supportedOperations.
_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def authorized_operations(
    services: BrokerServices, context: RequestContext, resource: Resource
) -> int:
    """Return one bit for each allowed operation, at the position of its code."""
    return sum(
        1 << operation
        for operation in _OPERATIONS[resource.type]
        if services.authorizer.authorize(context.principal, operation, resource)
    )
