"""The parts of an access rule (ACL): operations, resources and principals, as in Kafka (KIP-11)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Codes as in Kafka's ResourceType."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Resource(msgspec.Struct, frozen=True):
    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Principal(msgspec.Struct, frozen=True, cache_hash=True):
    """The identity of a session's user, in Kafka's form: `User:ANONYMOUS`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def of(cls, text: str) -> Principal:
        """Return the principal with this text. The name may contain colons."""
        type_, _, name = text.partition(":")
        return cls(type_, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
