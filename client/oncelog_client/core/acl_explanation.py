"""Explains the decision of a broker's authorizer from its access rules: the rule that decided, or
the rules that nearly allowed the operation.

The decision is that of Kafka's StandardAuthorizer (KIP-801): a rule that denies overrides every
rule that allows, and no rule is more specific than another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_protocol.security.hosts import host_text

WILDCARD: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
# Operation -> operations that imply it: a rule that allows one of these also allows the operation.
IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}


class Reason(Enum):
    """The reason of a decision."""

    SUPER_USER = "the principal is a super user"
    DENIED = "a rule denies it, which overrides every rule that allows"
    ALLOWED = "a rule allows it"
    NOT_ALLOWED = "no rule allows it"
    NO_RULES = "no rule is about the resource"


class AclQuestion(NamedTuple):
    """An operation of a principal (`User:alice`) at a host on a resource. The host `*` stands for
    an address that no rule names."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str


class NearRule(NamedTuple):
    """A rule that would allow the operation if these parts of the rule were different."""

    binding: AclBinding
    differs: tuple[str, ...]


class AclExplanation(NamedTuple):
    """`deciding` are the rules that decided: those that deny, or else those that allow. `near` are
    the rules that nearly allowed it, the nearest first. `missing` is a rule that would allow it,
    None if a rule already does."""

    question: AclQuestion
    is_allowed: bool
    reason: Reason
    deciding: list[AclBinding]
    near: list[NearRule]
    missing: AclBinding | None


def explain(
    question: AclQuestion,
    rules: Collection[AclBinding],
    *,
    super_users: Collection[str] = (),
    allow_if_no_acl: bool = False,
) -> AclExplanation:
    """Return the decision of a broker with these rules and settings, and what led to it."""
    if question.principal in super_users:
        return AclExplanation(question, True, Reason.SUPER_USER, [], [], None)
    of_type = [rule for rule in rules if rule.pattern.resource_type is question.resource_type]
    about = [rule for rule in of_type if _fits_name(question, rule)]
    concerning = [rule for rule in about if not _differences(question, rule)]
    denying = [rule for rule in concerning if _denies(rule)]
    allowing = [rule for rule in concerning if not _denies(rule)]
    near = [] if allowing else _near(question, of_type)
    missing = None if allowing else _missing(question)
    if denying:
        return AclExplanation(question, False, Reason.DENIED, denying, near, missing)
    if allowing:
        return AclExplanation(question, True, Reason.ALLOWED, allowing, [], None)
    if about:
        return AclExplanation(question, False, Reason.NOT_ALLOWED, [], near, missing)
    if allow_if_no_acl:
        near, missing = [], None
    return AclExplanation(question, allow_if_no_acl, Reason.NO_RULES, [], near, missing)


def _denies(rule: AclBinding) -> bool:
    return rule.entry.permission_type is AclPermissionType.DENY


def _fits_name(question: AclQuestion, rule: AclBinding) -> bool:
    pattern = rule.pattern
    if pattern.pattern_type is PatternType.PREFIXED:
        return question.name.startswith(pattern.name)
    return pattern.name in (question.name, WILDCARD)


def _fits_principal(question: AclQuestion, rule: AclBinding) -> bool:
    return rule.entry.principal in (question.principal, ANY_PRINCIPAL)


def _fits_host(question: AclQuestion, rule: AclBinding) -> bool:
    return rule.entry.host == WILDCARD or host_text(rule.entry.host) == host_text(question.host)


def _fits_operation(question: AclQuestion, rule: AclBinding) -> bool:
    operation = rule.entry.operation
    if operation in (question.operation, AclOperation.ALL):
        return True
    return not _denies(rule) and operation in IMPLIED_BY.get(question.operation, ())


# The parts of a rule, in the order in which an operator reads them.
_PARTS: Final[Mapping[str, Callable[[AclQuestion, AclBinding], bool]]] = {
    "name": _fits_name,
    "principal": _fits_principal,
    "host": _fits_host,
    "operation": _fits_operation,
}


def _differences(question: AclQuestion, rule: AclBinding) -> tuple[str, ...]:
    return tuple(part for part, fits in _PARTS.items() if not fits(question, rule))


def _near(question: AclQuestion, rules: Iterable[AclBinding]) -> list[NearRule]:
    """Return the allowing rules with the fewest differences from the question. Return no rules if
    all parts but one differ."""
    found = [NearRule(rule, _differences(question, rule)) for rule in rules if not _denies(rule)]
    fewest = min((len(near.differs) for near in found), default=len(_PARTS))
    if fewest >= len(_PARTS) - 1:
        return []
    return sorted(near for near in found if len(near.differs) == fewest)


def _missing(question: AclQuestion) -> AclBinding:
    entry = AccessControlEntry(
        question.principal, question.host, question.operation, AclPermissionType.ALLOW
    )
    return AclBinding(ResourcePattern(question.resource_type, question.name), entry)
