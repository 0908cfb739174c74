"""Random sets of access rules, with questions about them, for our authorizer and for Kafka's."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, Principal, Resource, ResourceType
from oncelog_server.security.standard_authorizer import StandardAuthorizer

NAMES: Final = ("a", "ab", "abc", "b", "*", "hardcode", "hard", "A", "a*")
TYPES: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
# A distinguished name has characters that other parsers split at.
PRINCIPALS: Final = (
    "User:alice", "User:bob", "User:*", "Group:g", "User:ANONYMOUS", "User:CN=a,OU=b"
)  # fmt: skip
HOSTS: Final = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
SUPER_USERS: Final = ("", "", "", "User:root", "User:bob;User:root")


@dataclass
class World:
    """Steps that add rules, remove rules, and ask questions."""

    super_users: str
    allow_if_no_acl: bool
    steps: list[tuple[Any, ...]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "super": self.super_users,
            "default": "true" if self.allow_if_no_acl else "false",
            "steps": self.steps,
        }

    def decisions(self) -> list[int]:
        """Return what our authorizer decides, 1 for an allowed question and 0 for a denied one."""
        rules: dict[Pattern, tuple[Acl, ...]] = {}
        added: list[tuple[Pattern, Acl]] = []
        authorizer = StandardAuthorizer(
            lambda: rules,
            [name for name in self.super_users.split(";") if name],
            allow_if_no_acl=self.allow_if_no_acl,
        )
        decided = []
        for step in self.steps:
            match step:
                case "add", type_, name, kind, principal, host, operation, permission:
                    pattern = Pattern(ResourceType(type_), name, PatternType(kind))
                    acl = Acl(principal, host, Operation(operation), Permission(permission))
                    added.append((pattern, acl))
                    rules = {**rules, pattern: (*rules.get(pattern, ()), acl)}
                case "remove", number:
                    pattern, acl = added[number]
                    left = tuple(other for other in rules[pattern] if other != acl)
                    rules = {**rules, pattern: left}
                    if not left:
                        del rules[pattern]
                case "any", principal, host, operation, type_:
                    subject = Asking(principal, host)
                    decided.append(
                        authorizer.authorize_any(subject, Operation(operation), ResourceType(type_))
                    )
                case "one", principal, host, operation, type_, name:
                    resource = Resource(ResourceType(type_), name)
                    decided.append(
                        authorizer.authorize(
                            Asking(principal, host), Operation(operation), resource
                        )
                    )
        return [int(decision) for decision in decided]


class Asking:
    """The session of a question."""

    listener = "PLAINTEXT"

    def __init__(self, principal: str, host: str) -> None:
        self.principal = Principal(*principal.split(":", 1))
        self.host = host


def rule(chance: Random) -> tuple[Any, ...]:
    operation = chance.choice([Operation.ALL, *Operation])
    return (
        "add",
        int(chance.choice(TYPES)),
        chance.choice(NAMES),
        int(chance.choice(list(PatternType)[1:])),
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        int(operation),
        int(chance.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY])),
    )


def question(chance: Random, *, of_type: bool) -> tuple[Any, ...]:
    principal = chance.choice([name for name in PRINCIPALS if name != "User:*"])
    host = chance.choice(HOSTS[1:])
    operation = int(chance.choice([each for each in Operation if each is not Operation.ALL]))
    if of_type:
        return ("any", principal, host, operation, int(chance.choice(TYPES)))
    return ("one", principal, host, operation, int(chance.choice(TYPES)), chance.choice(NAMES))


def world(seed: int, *, changes: bool) -> World:
    """Return a world with at least nine questions. With `changes`, rules are added and removed
    between the questions."""
    chance = Random(seed)
    made = World(chance.choice(SUPER_USERS), chance.random() < 0.3)
    known: list[tuple[Any, ...]] = []
    alive: set[int] = set()
    for _ in range(chance.randrange(1, 12)):
        _add(made, known, alive, rule(chance))
    for number in range(12):
        if changes and alive and chance.random() < 0.5:
            gone = chance.choice(sorted(alive))
            alive.discard(gone)
            made.steps.append(("remove", gone))
        elif changes:
            _add(made, known, alive, rule(chance))
        made.steps.append(question(chance, of_type=number % 4 == 0))
    return made


def _add(made: World, known: list[tuple[Any, ...]], alive: set[int], new: tuple[Any, ...]) -> None:
    """Add a rule that does not exist, because an authorizer never gets a rule twice."""
    if any(known[number] == new for number in alive):
        return
    alive.add(len(known))
    known.append(new)
    made.steps.append(new)
