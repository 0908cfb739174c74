"""The rights of a request. Every handler checks rights here: RequestContext has these functions as
methods.

The argument for a resource is its name, in `topic=`, `group=` or `transactional_id=`, or a Resource
such as `CLUSTER`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Authorizer, Subject
from oncelog_server.security.resources import Operation, Resource, ResourceType

# Looking a member up in its Enum takes as long as a call, and every Produce and Fetch needs these
# members.
_TOPIC: Final = ResourceType.TOPIC
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID

# The error code of a request without the right.
DENIED: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

# The value of the authorized operations if the request does not ask for them (KIP-430).
NOT_ASKED_FOR: Final = -(2**31)
# Kafka's AclEntry.supportedOperations.
_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
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


class Request(Protocol):
    """A request, with its session and the authorizer that judges it."""

    @property
    def session(self) -> Subject: ...

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def api_key(self) -> int: ...


# `require` and `may` repeat each other on purpose: each runs once for every topic of a Produce or
# Fetch request, and a shared function would add a call. test_access.py counts the calls.
def require(
    request: Request,
    operation: Operation,
    resource: Resource | None = None,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
) -> None:
    """Raise Refused if the request may not do the operation on the resource. The code is that of
    the resource's type in DENIED."""
    if topic is not None:
        resource = Resource(_TOPIC, topic)
    elif transactional_id is not None:
        resource = Resource(_TRANSACTIONAL_ID, transactional_id)
    elif resource is None:
        resource = _named(group)
    if not request.authorizer.authorize(request.session, operation, resource):
        request.authorizer.denied(
            request.session, operation, resource, request.api_key, logged=True
        )
        raise Refused(DENIED[resource.type])


def may(
    request: Request,
    operation: Operation,
    resource: Resource | None = None,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    logged: bool = True,
) -> bool:
    """Return True if the request may do the operation on the resource.

    `logged` is False if a denial is no error for the client (Kafka's Action.logIfDenied): another
    right is enough, or the response only omits the resource.
    """
    if topic is not None:
        resource = Resource(_TOPIC, topic)
    elif transactional_id is not None:
        resource = Resource(_TRANSACTIONAL_ID, transactional_id)
    elif resource is None:
        resource = _named(group)
    if request.authorizer.authorize(request.session, operation, resource):
        return True
    request.authorizer.denied(request.session, operation, resource, request.api_key, logged=logged)
    return False


def may_any(request: Request, operation: Operation, type: ResourceType) -> bool:
    """Return True if the request may do the operation on at least one resource of the type, even
    one that does not exist yet."""
    return request.authorizer.authorize_any(request.session, operation, type)


def authorized_operations(request: Request, resource: Resource) -> int:
    """Return one bit for each allowed operation, at the position of its code (KIP-430)."""
    return sum(
        1 << operation
        for operation in _OPERATIONS[resource.type]
        if may(request, operation, resource, logged=False)
    )


def _named(group: str | None) -> Resource:
    """Return the group as a Resource. Raises ValueError for None. Only requests off the hot path
    need this call."""
    if group is None:
        raise ValueError("a right is requested, but no resource is named")
    return Resource(ResourceType.GROUP, group)
