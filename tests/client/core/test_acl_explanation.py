"""The explanation of a decision: the client's decision equals the broker's, and the suggested rule
makes the broker allow the operation."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.core.acl_explanation import AclQuestion, Reason, explain
from oncelog_server.security import acls
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.security.standard_authorizer import StandardAuthorizer
from tests.conformance.authorizer.worlds import Asking, World, world

WORLDS = 400
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, WRITE = AclOperation.READ, AclOperation.WRITE


def rules_of(made: World) -> list[AclBinding]:
    return [
        AclBinding(
            ResourcePattern(AclResourceType(kind), name, PatternType(pattern)),
            AccessControlEntry(
                principal, host, AclOperation(operation), AclPermissionType(permission)
            ),
        )
        for step, kind, name, pattern, principal, host, operation, permission in (
            step for step in made.steps if step[0] == "add"
        )
        if step == "add"
    ]


def questions_of(made: World) -> list[AclQuestion]:
    return [
        AclQuestion(principal, host, AclOperation(operation), AclResourceType(kind), name)
        for _, principal, host, operation, kind, name in (
            step for step in made.steps if step[0] == "one"
        )
    ]


def broker_allows(question: AclQuestion, rules: list[AclBinding], made: World) -> bool:
    """Return the decision of our broker."""
    known: dict[acls.Pattern, list[acls.Acl]] = {}
    for (kind, name, pattern), (principal, host, operation, permission) in rules:
        where = acls.Pattern(ResourceType(kind), name, acls.PatternType(pattern))
        acl = acls.Acl(principal, host, Operation(operation), acls.Permission(permission))
        known.setdefault(where, []).append(acl)
    authorizer = StandardAuthorizer(
        lambda: known, made.super_users.split(";"), allow_if_no_acl=made.allow_if_no_acl
    )
    resource = Resource(ResourceType(question.resource_type), question.name)
    asking = Asking(question.principal, question.host)
    return authorizer.authorize(asking, Operation(question.operation), resource)


@pytest.mark.parametrize("first", range(0, WORLDS, 100))
def test_the_client_decides_as_the_broker(first: int) -> None:
    reasons = set()
    for seed in range(first, first + 100):
        made = world(seed, changes=False)
        rules = rules_of(made)
        Random(seed).shuffle(rules)
        for question in questions_of(made):
            found = explain(
                question,
                rules,
                super_users=made.super_users.split(";"),
                allow_if_no_acl=made.allow_if_no_acl,
            )
            assert found.is_allowed == broker_allows(question, rules, made), (seed, question)
            assert bool(found.deciding) == (found.reason in (Reason.ALLOWED, Reason.DENIED))
            reasons.add(found.reason)
            if not found.is_allowed:
                # The suggested rule makes the broker allow the operation.
                after = [rule for rule in rules if rule not in found.deciding]
                after += [found.missing] if found.missing is not None else []
                assert broker_allows(question, after, made), (seed, question)
    assert reasons == set(Reason)


def rule(
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(AclResourceType.TOPIC, name, pattern),
        AccessControlEntry(principal, host, operation, permission),
    )


QUESTION = AclQuestion("User:alice", "10.0.0.1", READ, AclResourceType.TOPIC, "orders")


@pytest.mark.parametrize(
    ("near", "differs"),
    [
        (rule("order"), "name"),
        (rule("orders-", PatternType.PREFIXED), "name"),
        (rule(principal="User:Alice"), "principal"),
        (rule(principal="Group:alice"), "principal"),
        (rule(host="10.0.0.2"), "host"),
        (rule(operation=AclOperation.CREATE), "operation"),
    ],
)
def test_a_rule_that_differs_in_one_part_is_near(near: AclBinding, differs: str) -> None:
    others = [rule("other", principal="User:bob"), near._replace(entry=DENIES)]
    found = explain(QUESTION, [*others, near])
    assert [(row.binding, row.differs) for row in found.near] == [(near, (differs,))]
    assert not found.is_allowed


DENIES = rule(permission=DENY, principal="User:carol").entry


def test_rules_that_differ_in_nearly_all_parts_are_not_near() -> None:
    two = rule(host="10.0.0.2", principal="User:bob")
    three = rule("other", host="10.0.0.2", principal="User:bob")
    assert [row.differs for row in explain(QUESTION, [two, three]).near] == [("principal", "host")]
    assert explain(QUESTION, [three]).near == []


def test_a_denied_operation_names_each_rule_that_denies_it() -> None:
    by_all = rule(permission=DENY, principal="User:*")
    by_prefix = rule("ord", PatternType.PREFIXED, permission=DENY, operation=AclOperation.ALL)
    found = explain(QUESTION, [by_all, rule(), by_prefix])
    assert found.reason is Reason.DENIED
    assert found.deciding == [by_all, by_prefix]
    # Another rule already allows the operation.
    assert found.missing is None
    assert explain(QUESTION, [by_all]).missing == rule(host="10.0.0.1")


def test_the_spelling_of_an_ipv6_host_does_not_matter() -> None:
    question = QUESTION._replace(host="::1")
    assert explain(question, [rule(host="0:0:0:0:0:0:0:1")]).is_allowed


def test_without_a_host_only_rules_of_every_host_count() -> None:
    question = QUESTION._replace(host="*")
    assert not explain(question, [rule(host="10.0.0.1")]).is_allowed
    assert explain(question, [rule(host="*")]).is_allowed
