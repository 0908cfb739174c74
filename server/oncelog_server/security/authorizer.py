"""The one question every handler asks before it does anything (KIP-11)."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import msgspec


class Operation(IntEnum):
    """Codes as in Kafka's AclOperation."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Codes as in Kafka's ResourceType."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Resource(msgspec.Struct, frozen=True):
    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Principal(msgspec.Struct, frozen=True):
    """Who a connection speaks for, as Kafka writes it: `User:ANONYMOUS`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class Authorizer(Protocol):
    def authorize(self, principal: Principal, operation: Operation, resource: Resource) -> bool: ...

    def authorize_any(self, principal: Principal, operation: Operation, type: ResourceType) -> bool:
        """Whether there is any resource of the type, one that does not exist yet included, on which
        the operation is allowed (Kafka's authorizeByResourceType)."""
        ...


class AllowAll:
    """Until there are rules (a later issue) every request is allowed."""

    def authorize(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return True

    def authorize_any(self, principal: Principal, operation: Operation, type: ResourceType) -> bool:
        return True
