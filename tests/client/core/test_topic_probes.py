"""If a user may describe the probes, the user may describe a topic of any name."""

from __future__ import annotations

import itertools
from random import Random

from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.core.topic_probes import topic_probes
from oncelog_server.security import acls
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.security.standard_authorizer import StandardAuthorizer
from tests.conformance.authorizer.worlds import Asking

WORLDS = 3_000
LETTERS = "ab-"
NAMES = ["".join(name) for size in (1, 2, 3, 4) for name in itertools.product(LETTERS, repeat=size)]
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def rule(
    name: str,
    pattern: PatternType = LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(AclResourceType.TOPIC, name, pattern),
        AccessControlEntry("User:alice", "*", AclOperation.DESCRIBE, permission),
    )


def allowed(names: list[str], rules: list[AclBinding], authorizer: StandardAuthorizer) -> bool:
    asking = Asking("User:alice", "10.0.0.1")
    return all(
        authorizer.authorize(asking, Operation.DESCRIBE, Resource(ResourceType.TOPIC, name))
        for name in names
    )


def authorizer_of(
    rules: list[AclBinding], *, allow_if_no_acl: bool, is_super: bool
) -> StandardAuthorizer:
    known: dict[acls.Pattern, list[acls.Acl]] = {}
    for (kind, name, pattern), (principal, host, operation, permission) in rules:
        where = acls.Pattern(ResourceType(kind), name, acls.PatternType(pattern))
        acl = acls.Acl(principal, host, Operation(operation), acls.Permission(permission))
        known.setdefault(where, []).append(acl)
    users = ["User:alice"] if is_super else []
    return StandardAuthorizer(lambda: known, users, allow_if_no_acl=allow_if_no_acl)


def test_the_probes_are_allowed_if_and_only_if_all_names_are() -> None:
    results = set()
    for seed in range(WORLDS):
        random = Random(seed)
        rules = [
            rule(
                random.choice(["*", *NAMES[:30]]),
                random.choice([LITERAL, PREFIXED]),
                random.choice(
                    [AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]
                ),
            )
            for _ in range(random.randrange(4))
        ]
        authorizer = authorizer_of(
            rules,
            allow_if_no_acl=random.random() < 0.4,
            is_super=random.random() < 0.2,
        )
        probes = topic_probes(rules)
        assert probes is not None
        sees_all = allowed(probes, rules, authorizer)
        # A name outside of LETTERS stands for all names to which only rules for `*` apply.
        assert sees_all == allowed([*NAMES, "other"], rules, authorizer), (seed, rules, probes)
        results.add(sees_all)
    assert results == {True, False}


def test_a_prefix_as_long_as_a_name_has_a_probe() -> None:
    longest = "x" * 249
    assert longest in (topic_probes([rule(longest, PREFIXED)]) or ())


def test_a_literal_pattern_does_not_hide_the_names_around_it() -> None:
    (first,) = topic_probes([]) or [""]
    probes = topic_probes([rule(first)]) or ()
    assert first in probes
    assert len(probes) == 2


def test_nothing_is_proven_if_there_is_a_prefix_for_each_first_character() -> None:
    letters = [chr(code) for code in range(128) if chr(code).isalnum()]
    rules = [rule(letter, PREFIXED) for letter in (*letters, "_", "-", ".")]
    assert topic_probes(rules[1:]) is not None
    assert topic_probes(rules) is None
