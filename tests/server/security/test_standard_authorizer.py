"""The authorizer against a naive one that looks at every rule. `tests/conformance/authorizer`
compares it with Kafka's own."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.security.standard_authorizer import Rules, StandardAuthorizer
from tests.conformance.authorizer.worlds import Asking, World, world

WORLDS = 400
READ, DESCRIBE = Operation.READ, Operation.DESCRIBE
TOPIC = ResourceType.TOPIC
IMPLIES = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def naive(made: World) -> list[int]:
    """Return the decisions of a world about single resources."""
    rules: list[tuple[int, tuple[object, ...]]] = []
    decided = []
    added = 0
    for step in made.steps:
        if step[0] == "add":
            rules.append((added, step[1:]))
            added += 1
        elif step[0] == "remove":
            rules = [row for row in rules if row[0] != step[1]]
        elif step[0] == "one":
            decided.append(int(allowed(made, [row for _, row in rules], *step[1:])))
    return decided


def allowed(
    made: World, rules: list[tuple[object, ...]], principal: str, host: str, operation: int,
    type_: int, name: str,
) -> bool:  # fmt: skip
    if principal in made.super_users.split(";"):
        return True
    about = [
        row for row in rules
        if row[0] == type_ and (
            (row[2] == PatternType.LITERAL and row[1] in (name, "*"))
            or (row[2] == PatternType.PREFIXED and name.startswith(str(row[1])))
        )
    ]  # fmt: skip
    if not about:
        return made.allow_if_no_acl
    mine = [row for row in about if row[3] in (principal, "User:*") and row[4] in (host, "*")]
    exact = [row for row in mine if row[5] in (operation, Operation.ALL)]
    if any(row[6] == Permission.DENY for row in exact):
        return False
    implied = IMPLIES.get(Operation(operation), set())
    return any(row[6] == Permission.ALLOW for row in exact) or any(
        row[6] == Permission.ALLOW and row[5] in implied for row in mine
    )


@pytest.mark.parametrize("changes", [False, True])
def test_every_decision_is_that_of_a_naive_authorizer(changes: bool) -> None:
    for seed in range(WORLDS):
        made = world(seed, changes=changes)
        made.steps = [step for step in made.steps if step[0] != "any"]
        assert made.decisions() == naive(made), seed


def authorizer(rules: Rules, *super_users: str) -> StandardAuthorizer:
    return StandardAuthorizer(lambda: rules, super_users, allow_if_no_acl=False)


def one(permission: Permission, operation: Operation = READ, name: str = "t") -> Rules:
    pattern = Pattern(TOPIC, name, PatternType.LITERAL)
    return {pattern: (Acl("User:a", "*", operation, permission),)}


def test_a_super_user_passes_a_rule_that_denies() -> None:
    rules = one(Permission.DENY, Operation.ALL, "*")
    assert authorizer(rules, "User:a").authorize(Asking("User:a", "h"), READ, Resource(TOPIC, "t"))
    assert authorizer(rules, "User:a").authorize_any(Asking("User:a", "h"), READ, TOPIC)


def test_a_denied_right_does_not_deny_what_the_right_would_include() -> None:
    pattern = Pattern(TOPIC, "t", PatternType.LITERAL)
    rules = {
        pattern: (
            Acl("User:a", "*", Operation.WRITE, Permission.DENY),
            Acl("User:a", "*", Operation.READ, Permission.ALLOW),
        )
    }
    asking = Asking("User:a", "h")
    assert authorizer(rules).authorize(asking, DESCRIBE, Resource(TOPIC, "t"))
    assert not authorizer(rules).authorize(asking, Operation.WRITE, Resource(TOPIC, "t"))


def test_a_decision_is_dropped_when_a_rule_changes() -> None:
    state: list[Rules] = [one(Permission.ALLOW)]
    judge = StandardAuthorizer(lambda: state[0], (), allow_if_no_acl=False)
    asking, resource = Asking("User:a", "h"), Resource(TOPIC, "t")
    assert judge.authorize(asking, READ, resource)
    state[0] = {}
    assert not judge.authorize(asking, READ, resource)


def test_the_number_of_kept_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog_server.security.standard_authorizer._MAX_DECISIONS", 10)
    judge = authorizer(one(Permission.ALLOW))
    for number in range(100):
        assert not judge.authorize(Asking("User:a", "h"), READ, Resource(TOPIC, f"x{number}"))
        assert len(judge._decisions) <= 10


def test_no_decision_about_a_name_longer_than_a_topics_is_kept() -> None:
    """65,536 names of groups with 32 KiB each would take 2 GiB."""
    judge = authorizer(one(Permission.ALLOW, name="x" * 250))
    for length, is_allowed in ((249, False), (250, True), (32_767, False)):
        assert judge.authorize(Asking("User:a", "h"), READ, Resource(TOPIC, "x" * length)) is (
            is_allowed
        )
    assert [len(name) for *_, name in judge._decisions] == [249]


def test_a_kept_decision_takes_two_function_calls() -> None:
    """Every Produce and Fetch asks about each topic. The text of a principal would be a call
    too."""
    rules: Rules = {}
    authorizer = StandardAuthorizer(lambda: rules, [], allow_if_no_acl=True)
    subject, resource = Asking("User:alice", "10.0.0.1"), Resource(TOPIC, "t")
    assert authorizer.authorize(subject, READ, resource)
    calls: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        authorizer.authorize(subject, READ, resource)
    finally:
        sys.setprofile(None)
    assert calls == ["authorize", "<lambda>"]
