"""The access rules of the bench: of every kind, and a client of the loads may write."""

from __future__ import annotations

import pytest

from benchmarks.acls import CONTRACTOR, MEASURED, RULES, thousand_rules
from oncelog_server.requests.session import Handshake, Session
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission, new_acl
from oncelog_server.security.resources import Operation, Principal, Resource, ResourceType
from oncelog_server.security.standard_authorizer import RuleIndex, StandardAuthorizer

TOPIC = f"{MEASURED}00003"


def rules() -> dict[Pattern, list[Acl]]:
    found: dict[Pattern, list[Acl]] = {}
    for row in thousand_rules():
        pattern, acl = new_acl(
            row.resource_type,
            row.resource_name,
            row.resource_pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
        found.setdefault(pattern, []).append(acl)
    return found


def session(principal: str) -> Session:
    """Return the session of a client of this computer."""
    opened = Handshake("PLAINTEXT").transport_open("127.0.0.1", lambda: False)
    kind, _, name = principal.partition(":")
    return Session(Principal(kind, name), opened.host, opened.listener, opened.has_hung_up)


def test_there_are_a_thousand_different_rules_of_many_kinds() -> None:
    found = [(pattern, acl) for pattern, acls in rules().items() for acl in acls]
    assert len(set(found)) == RULES
    assert {pattern.pattern_type for pattern, _ in found} >= {
        PatternType.LITERAL,
        PatternType.PREFIXED,
    }
    assert len({pattern.type for pattern, _ in found}) == 3
    assert len({acl.principal for _, acl in found}) > 40
    assert sum(acl.permission is Permission.DENY for _, acl in found) > 20


def test_rules_of_all_kinds_are_about_a_topic_of_the_loads() -> None:
    about = list(RuleIndex(rules()).about(ResourceType.TOPIC, TOPIC))
    assert {pattern.name for pattern, _ in about} == {TOPIC, MEASURED, "ben", "b", "*"}
    assert {acl.permission for _, acl in about} == {Permission.ALLOW, Permission.DENY}


@pytest.mark.parametrize(
    ("principal", "operation", "allowed"),
    [
        ("User:ANONYMOUS", Operation.WRITE, True),
        ("User:ANONYMOUS", Operation.DELETE, True),
        ("User:application-3", Operation.WRITE, True),
        ("User:application-30", Operation.READ, False),
        (CONTRACTOR, Operation.WRITE, False),
    ],
)
def test_the_rules_allow_the_client_of_the_loads_and_refuse_others(
    principal: str, operation: Operation, *, allowed: bool
) -> None:
    authorizer = StandardAuthorizer(rules, (), allow_if_no_acl=True)
    resource = Resource(ResourceType.TOPIC, TOPIC)
    assert authorizer.authorize(session(principal), operation, resource) is allowed
