"""The authorization check that every handler makes first (KIP-11)."""

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
    """The identity of a connection's user, in Kafka's form: `User:ANONYMOUS`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class Authorizer(Protocol):
    def authorize(self, principal: Principal, operation: Operation, resource: Resource) -> bool: ...

    def authorize_any(self, principal: Principal, operation: Operation, type: ResourceType) -> bool:
        """Return True if the operation is allowed on any resource of the type, also on one that
        does not exist yet (Kafka's authorizeByResourceType)."""
        ...


class AllowAll:
    """Allows every request. There are no ACLs yet."""

    def authorize(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return True

    def authorize_any(self, principal: Principal, operation: Operation, type: ResourceType) -> bool:
        return True
