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


class Drawn:
    """The few values of one world. With few values, many rules are about one question, so rules
    that allow meet rules that deny."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._types = chance.sample(TYPES, chance.randrange(1, 3))
        self._names = chance.sample(NAMES, chance.randrange(2, 5))
        self._principals = chance.sample(PRINCIPALS, chance.randrange(2, 4))
        self._hosts = chance.sample(HOSTS, chance.randrange(2, 4))
        operations = [each for each in Operation if each is not Operation.ALL]
        self._operations = chance.sample(operations, chance.randrange(1, 5))

    def rule(self) -> tuple[Any, ...]:
        choice = self._chance.choice
        return (
            "add",
            int(choice(self._types)),
            choice(self._names),
            int(choice([PatternType.LITERAL, PatternType.PREFIXED])),
            choice(self._principals),
            choice(self._hosts),
            int(choice([Operation.ALL, *self._operations])),
            int(choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY])),
        )

    def question(self, *, of_type: bool) -> tuple[Any, ...]:
        choice = self._chance.choice
        # A client has a name and an address, and no wildcard.
        principal = choice([name for name in (*self._principals, "User:root") if name[-1] != "*"])
        host = choice([host for host in (*self._hosts, "10.0.0.9") if host != "*"])
        asked = (principal, host, int(choice(self._operations)), int(choice(self._types)))
        return ("any", *asked) if of_type else ("one", *asked, choice(self._names))


def world(seed: int, *, changes: bool) -> World:
    """Return a world with at least nine questions. With `changes`, rules are added and removed
    between the questions."""
    chance = Random(seed)
    made = World(chance.choice(SUPER_USERS), chance.random() < 0.3)
    drawn = Drawn(chance)
    known: list[tuple[Any, ...]] = []
    alive: set[int] = set()
    for _ in range(chance.randrange(1, 12)):
        _add(made, known, alive, drawn.rule())
    for number in range(12):
        if changes and alive and chance.random() < 0.5:
            gone = chance.choice(sorted(alive))
            alive.discard(gone)
            made.steps.append(("remove", gone))
        elif changes:
            _add(made, known, alive, drawn.rule())
        made.steps.append(drawn.question(of_type=number % 4 == 0))
    return made


def _add(made: World, known: list[tuple[Any, ...]], alive: set[int], new: tuple[Any, ...]) -> None:
    """Add a rule that does not exist, because an authorizer never gets a rule twice."""
    if any(known[number] == new for number in alive):
        return
    alive.add(len(known))
    known.append(new)
    made.steps.append(new)
