"""Log events of denied requests: what they say, and how many there are."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_server.requests.session import Session
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.audit import MOST_KEYS, REPEAT_MS
from oncelog_server.security.denials import LOGGED_NAME, MOST_VARIANTS, Denials
from oncelog_server.security.resources import (
    CLUSTER,
    Operation,
    Principal,
    Resource,
    ResourceType,
)
from oncelog_server.security.standard_authorizer import StandardAuthorizer

ORDERS = Resource(ResourceType.TOPIC, "orders")
READ = Operation.READ


def session(name: str) -> Session:
    return Session(Principal("User", name), "10.0.0.1", "EXTERNAL", lambda: False)


ALICE, BOB = session("alice"), session("bob")
OF_ORDERS = Pattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
DENY_BOB = Acl("User:bob", "*", Operation.ALL, Permission.DENY)
ALLOW_ALL = Acl("User:*", "*", READ, Permission.ALLOW)


class World:
    """An authorizer with rules, a clock, and the events that it logs."""

    def __init__(self, *acls: Acl) -> None:
        self.events: list[dict[str, Any]] = []
        self.now_ms = 0
        denials = Denials(self._log, lambda: self.now_ms)
        self.change_rules(*acls)
        self.authorizer = StandardAuthorizer(
            lambda: self._rules, ["User:root"], allow_if_no_acl=False, denials=denials
        )

    def change_rules(self, *acls: Acl) -> None:
        self._rules = {OF_ORDERS: acls} if acls else {}

    def _log(self, **fields: Any) -> None:
        self.events.append(fields)

    def deny(
        self,
        subject: Session = BOB,
        resource: Resource = ORDERS,
        operation: Operation = READ,
        *,
        logged: bool = True,
    ) -> None:
        assert not self.authorizer.authorize(subject, operation, resource)
        self.authorizer.denied(subject, operation, resource, ApiKey.FETCH, logged=logged)


def test_an_event_names_the_principal_the_right_and_the_rule() -> None:
    world = World(ALLOW_ALL, DENY_BOB)
    world.deny()
    assert world.events == [
        {
            "count": 1,
            "principal": "User:bob",
            "host": "10.0.0.1",
            "listener": "EXTERNAL",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resource": "orders",
            "api": "Fetch",
            "rule": "DENY ALL by User:bob from * on TOPIC PREFIXED ord",
        }
    ]


@pytest.mark.parametrize("acls", [(), (ALLOW_ALL,)])
def test_a_denial_without_a_rule_has_the_word_of_kafka(acls: tuple[Acl, ...]) -> None:
    world = World(*acls)
    world.deny(operation=Operation.WRITE)
    assert world.events[0]["rule"] == "DefaultDeny"


def test_a_repeated_denial_is_logged_once_a_minute_with_a_count() -> None:
    world = World(DENY_BOB)
    for second in range(3 * REPEAT_MS // 1_000):
        world.now_ms = second * 1_000
        world.deny()
    assert [event["count"] for event in world.events] == [1, 60, 60]


def test_an_event_has_the_rule_at_the_time_of_the_denial() -> None:
    """A rule may be added before the event is logged, even a rule that allows the operation."""
    world = World(DENY_BOB)
    for _ in range(6):
        world.deny()
    world.change_rules()
    for _ in range(3):
        world.deny()
    world.change_rules(ALLOW_ALL)
    denied = "DENY ALL by User:bob from * on TOPIC PREFIXED ord"
    assert _rules_and_counts(world) == [(denied, 1), ("DefaultDeny", 1)]
    del world.events[:]
    world.authorizer.flush()
    assert _rules_and_counts(world) == [(denied, 5), ("DefaultDeny", 2)]


def test_an_event_has_only_what_is_true_of_all_its_denials() -> None:
    world = World()
    for number in range(MOST_VARIANTS + 3):
        subject = Session(BOB.principal, f"10.0.0.{number}", BOB.listener, lambda: False)
        world.deny(subject)
    assert [event["host"] for event in world.events] == [
        f"10.0.0.{number}" for number in range(MOST_VARIANTS)
    ]
    del world.events[:]
    world.authorizer.flush()
    (rest,) = world.events
    assert "host" not in rest
    assert (rest["count"], rest["resource"], rest["rule"]) == (3, "orders", "DefaultDeny")


def _rules_and_counts(world: World) -> list[tuple[str, int]]:
    return [(event["rule"], event["count"]) for event in world.events]


def test_the_denials_that_are_not_logged_yet_are_logged_at_a_stop() -> None:
    world = World(DENY_BOB)
    for _ in range(4):
        world.deny()
    world.deny(ALICE)
    for number in range(MOST_KEYS + 5):
        world.deny(resource=Resource(ResourceType.TOPIC, f"t{number}"))
    del world.events[:]
    world.authorizer.flush()
    world.authorizer.flush()
    # Three denials are of one resource. Seven are of resources that are not remembered, and the
    # first of these was logged at once.
    assert [event["count"] for event in world.events] == [3, 6]
    assert world.events[0]["rule"] == "DENY ALL by User:bob from * on TOPIC PREFIXED ord"
    assert "resource" not in world.events[1]


def test_what_is_remembered_of_a_denial_refers_to_no_connection() -> None:
    world = World(DENY_BOB)

    def has_hung_up() -> bool:
        return False

    reference = weakref.ref(has_hung_up)
    subject = Session(BOB.principal, BOB.host, BOB.listener, has_hung_up)
    for _ in range(2):
        world.deny(subject, Resource(ResourceType.GROUP, "g" * 30_000))
        world.deny(subject)
    del subject, has_hung_up
    gc.collect()
    assert reference() is None


def test_another_principal_operation_or_resource_is_another_event() -> None:
    world = World(DENY_BOB)
    world.deny()
    world.deny(ALICE)
    world.deny(operation=Operation.WRITE)
    world.deny(resource=Resource(ResourceType.TOPIC, "orders2"))
    world.deny(resource=Resource(ResourceType.GROUP, "orders"))
    world.deny()
    assert [event["count"] for event in world.events] == [1] * 5


def test_an_unlogged_denial_is_only_counted() -> None:
    world = World()
    world.deny(logged=False)
    assert world.events == []
    assert world.authorizer.denied_total == 1


def test_a_client_that_names_many_resources_hides_no_other_principal() -> None:
    world = World()
    for number in range(3 * MOST_KEYS):
        world.deny(resource=Resource(ResourceType.TOPIC, f"t{number}"))
    # The events of the resources that are remembered, and one for all others.
    assert len(world.events) == MOST_KEYS + 1
    world.deny(ALICE, CLUSTER)
    last = world.events[-1]
    assert (last["principal"], last["resource_type"]) == ("User:alice", "CLUSTER")


def test_long_names_are_cut() -> None:
    world = World()
    world.deny(resource=Resource(ResourceType.GROUP, "g" * 30_000))
    assert world.events[0]["resource"] == "g" * LOGGED_NAME


@pytest.mark.parametrize(
    ("subject", "acls", "rule"),
    [
        (session("root"), (Acl("User:root", "*", READ, Permission.DENY),), None),
        (ALICE, (DENY_BOB, ALLOW_ALL), (OF_ORDERS, ALLOW_ALL)),
        (BOB, (ALLOW_ALL, DENY_BOB), (OF_ORDERS, DENY_BOB)),
    ],
)
def test_a_decision_names_its_rule(
    subject: Session, acls: tuple[Acl, ...], rule: tuple[Pattern, Acl] | None
) -> None:
    authorizer = World(*acls).authorizer
    decision = authorizer.decide(subject, READ, ORDERS)
    assert decision.rule == rule
    assert decision.allowed is authorizer.authorize(subject, READ, ORDERS)
    assert authorizer.rule_count == len(acls)
