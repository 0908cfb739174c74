"""The users, and their drawn access rules."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from oncelog_protocol.messages.create_acls import AclCreation
from oncelog_server.security.acls import PatternType, Permission
from oncelog_server.security.resources import CLUSTER, Operation, ResourceType

USERS: Final = 500
# The rules of so many users exist at once. For each question, Kafka goes through all rules about
# the resource.
USERS_AT_ONCE: Final = 50
PASSWORD: Final = "secret"
HOSTS: Final = ("*",) * 6 + ("127.0.0.1",) * 2 + ("10.9.9.9",)
KINDS: Final = (
    (ResourceType.TOPIC,) * 5
    + (ResourceType.GROUP,) * 3
    + (ResourceType.TRANSACTIONAL_ID,) * 3
    + (ResourceType.CLUSTER,) * 2
)
# Prefixes and whole names. The requests of `requests.py` are about some of these names.
NAMES: Final = ("p", "pay", "payments", "paid", "o", "orders", "*")
PREFIXES: Final = ("p", "pa", "pay", "o", "orders")
TOPIC_OPERATIONS: Final = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OPERATIONS: Final = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: (
        Operation.ALL,
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.ALL,
        Operation.DESCRIBE,
        Operation.WRITE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.CLUSTER: (
        Operation.ALL,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
# Rules for every user.
SHARED: Final = (
    AclCreation(
        ResourceType.GROUP,
        "orders",
        PatternType.PREFIXED,
        "User:*",
        "127.0.0.1",
        Operation.DESCRIBE,
        Permission.ALLOW,
    ),
    AclCreation(
        ResourceType.TOPIC,
        "payments",
        PatternType.LITERAL,
        "User:*",
        "*",
        Operation.DELETE,
        Permission.DENY,
    ),
)


def user_name(number: int) -> str:
    return f"user-{number}"


def drawn_rules(number: int) -> Iterator[AclCreation]:
    """Yield the rules of a user: up to 14. Three quarters of them allow."""
    rng = Random(f"rules of {number}")
    for _ in range(rng.randint(0, 14)):
        kind = rng.choice(KINDS)
        pattern = PatternType.LITERAL
        if kind is ResourceType.CLUSTER:
            name = CLUSTER.name
        elif rng.random() < 0.4:
            name, pattern = rng.choice(PREFIXES), PatternType.PREFIXED
        else:
            name = rng.choice(NAMES)
        permission = Permission.ALLOW if rng.random() < 0.75 else Permission.DENY
        yield AclCreation(
            kind,
            name,
            pattern,
            f"User:{user_name(number)}",
            rng.choice(HOSTS),
            rng.choice(OPERATIONS[kind]),
            permission,
        )


def rules_of(numbers: range) -> list[AclCreation]:
    """Return the rules of these users, each once."""
    rules = [rule for number in numbers for rule in drawn_rules(number)]
    return list({repr(rule): rule for rule in rules}.values())
