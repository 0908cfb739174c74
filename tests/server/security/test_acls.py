"""Access rules and their filters: Kafka's checks, messages and matches."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_server.refusal import Refused
from oncelog_server.security.acls import (
    Acl,
    AclFilter,
    Pattern,
    PatternType,
    Permission,
    check_known,
    is_specific,
    new_acl,
)
from oncelog_server.security.resources import Operation, ResourceType

TOPIC, CLUSTER, LITERAL, PREFIXED, READ, ALLOW = 2, 4, 3, 4, 3, 3
ANY, MATCH = 1, 2


def test_a_rule_is_made_of_the_codes_of_a_request() -> None:
    assert new_acl(TOPIC, "a", PREFIXED, "User:CN=a:b", "*", READ, ALLOW) == (
        Pattern(ResourceType.TOPIC, "a", PatternType.PREFIXED),
        Acl("User:CN=a:b", "*", Operation.READ, Permission.ALLOW),
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((CLUSTER, "mine", LITERAL, "User:a", "*", READ, ALLOW), "The only valid name for the"),
        ((TOPIC, "", LITERAL, "User:a", "*", READ, ALLOW), "Invalid empty resource name"),
        ((8, "a", LITERAL, "User:a", "*", READ, ALLOW), "Invalid resourceType UNKNOWN"),
        ((TOPIC, "a", 5, "User:a", "*", READ, ALLOW), "Invalid patternType UNKNOWN"),
        ((TOPIC, "a", LITERAL, "User:a", "*", 16, ALLOW), "Invalid operation UNKNOWN"),
        ((TOPIC, "a", LITERAL, "User:a", "*", READ, 4), "Invalid permissionType UNKNOWN"),
        (
            (TOPIC, "a", LITERAL, "alice", "*", READ, ALLOW),
            "Could not parse principal from `alice`",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused(
    row: tuple[int, str, int, str, str, int, int], message: str
) -> None:
    with pytest.raises(Refused, match=message) as caught:
        new_acl(*row)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("codes", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0)])
def test_an_unknown_code_closes_the_connection(codes: tuple[int, int, int, int]) -> None:
    with pytest.raises(ProtocolError):
        check_known(*codes)
    check_known(2, 3, 3, 3)


@pytest.mark.parametrize(
    "codes", [(1, 3, 3, 3), (2, 1, 3, 3), (2, 2, 3, 3), (2, 3, 1, 3), (2, 3, 3, 1)]
)
def test_only_a_filter_may_have_any_or_match(codes: tuple[int, int, int, int]) -> None:
    assert not is_specific(*codes)
    assert is_specific(2, 3, 3, 3)


@pytest.mark.parametrize(
    ("codes", "message"),
    [((8, 3, 3, 3), "patternFilter"), ((2, 5, 3, 3), "patternFilter"),
     ((2, 3, 16, 3), "entryFilter"), ((2, 3, 3, 4), "entryFilter")],
)  # fmt: skip
def test_a_filter_with_a_code_that_kafka_does_not_have_chooses_nothing(
    codes: tuple[int, int, int, int], message: str
) -> None:
    type_, pattern_type, operation, permission = codes
    wanted = AclFilter(type_, None, pattern_type, None, None, operation, permission)
    with pytest.raises(Refused, match=message):
        wanted.check()
    rule = Acl("User:a", "*", Operation.READ, Permission.ALLOW)
    assert not (wanted.matches_pattern(LITERAL_A) and wanted.matches(rule))


LITERAL_A = Pattern(ResourceType.TOPIC, "abc", PatternType.LITERAL)
PREFIX_A = Pattern(ResourceType.TOPIC, "ab", PatternType.PREFIXED)
WILD = Pattern(ResourceType.TOPIC, "*", PatternType.LITERAL)
GROUP = Pattern(ResourceType.GROUP, "abc", PatternType.LITERAL)


@pytest.mark.parametrize(
    ("type_", "name", "pattern_type", "chosen"),
    [
        (ANY, None, ANY, {LITERAL_A, PREFIX_A, WILD, GROUP}),
        (TOPIC, None, ANY, {LITERAL_A, PREFIX_A, WILD}),
        (TOPIC, None, PREFIXED, {PREFIX_A}),
        (TOPIC, "abc", LITERAL, {LITERAL_A}),
        (TOPIC, "abc", ANY, {LITERAL_A}),
        (TOPIC, "abc", MATCH, {LITERAL_A, PREFIX_A, WILD}),
        (TOPIC, "ab", MATCH, {PREFIX_A, WILD}),
        (TOPIC, "x", MATCH, {WILD}),
        (TOPIC, "abc", PREFIXED, set()),
    ],
)
def test_a_filter_chooses_patterns(
    type_: int, name: str | None, pattern_type: int, chosen: set[Pattern]
) -> None:
    wanted = AclFilter(type_, name, pattern_type, None, None, ANY, ANY)
    patterns = (LITERAL_A, PREFIX_A, WILD, GROUP)
    assert {pattern for pattern in patterns if wanted.matches_pattern(pattern)} == chosen


def test_a_filter_chooses_rules_by_each_field() -> None:
    rule = Acl("User:a", "10.0.0.1", Operation.READ, Permission.ALLOW)
    for principal, host, operation, permission, matches in (
        (None, None, ANY, ANY, True),
        ("User:a", "10.0.0.1", READ, ALLOW, True),
        ("User:b", None, ANY, ANY, False),
        (None, "*", ANY, ANY, False),
        (None, None, 4, ANY, False),
        (None, None, ANY, 2, False),
    ):
        wanted = AclFilter(ANY, None, ANY, principal, host, operation, permission)
        assert wanted.matches(rule) is matches
