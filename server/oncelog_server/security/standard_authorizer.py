"""Kafka's StandardAuthorizer: decisions from access rules (KIP-801).

A rule that denies wins against any rule that allows. No rule is more specific than another. The
decision is that of `StandardAuthorizerData.findResult`, and `authorize_any` that of
`Authorizer.authorizeByResourceType`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from oncelog_server.security.acls import (
    ANY_PRINCIPAL,
    WILDCARD,
    Acl,
    Pattern,
    PatternType,
    Permission,
)
from oncelog_server.security.authorizer import Subject
from oncelog_server.security.hosts import host_text
from oncelog_server.security.resources import Operation, Resource, ResourceType

Rules = Mapping[Pattern, Collection[Acl]]

# Rights that include others, for rules that allow.
_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[Operation]] = frozenset()
# Decisions that are kept. All are dropped when there are more, and when a rule changes.
_MAX_DECISIONS: Final = 65_536
# Kafka asks for a resource of this name, and so finds the default and the prefixes of this name.
_SOME_NAME: Final = "hardcode"

_Question = tuple[str, str, Operation, ResourceType, str]


class StandardAuthorizer:
    """Decides by the rules that `rules` returns at each question, which are indexed again only if
    it returns another object.

    `super_users` are principals as text, which no rule concerns. `allow_if_no_acl` is the decision
    for a resource without rules (allow.everyone.if.no.acl.found).
    """

    def __init__(
        self, rules: Callable[[], Rules], super_users: Collection[str], *, allow_if_no_acl: bool
    ) -> None:
        self._rules = rules
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._indexed: Rules | None = None
        self._index = RuleIndex({})
        self._decisions: dict[_Question, bool] = {}

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        index = self._current_index()
        principal = str(subject.principal)
        question = (principal, subject.host, operation, resource.type, resource.name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = principal in self._super_users or self._decide(index, question)
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[question] = decision
        return decision

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        index = self._current_index()
        if self.authorize(subject, operation, Resource(type, _SOME_NAME)):
            return True
        concerning = [
            (pattern, acl.permission)
            for pattern, acl in index.of_type(type)
            if acl.principal in (str(subject.principal), ANY_PRINCIPAL)
            and acl.host in (subject.host, WILDCARD)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {pattern for pattern, permission in concerning if permission is Permission.DENY}
        if Pattern(type, WILDCARD, PatternType.LITERAL) in denied:
            return False
        return any(
            not _dominated(pattern, denied)
            for pattern, permission in concerning
            if permission is Permission.ALLOW
        )

    def _current_index(self) -> RuleIndex:
        rules = self._rules()
        if rules is not self._indexed:
            self._indexed, self._index = rules, RuleIndex(rules)
            self._decisions.clear()
        return self._index

    def _decide(self, index: RuleIndex, question: _Question) -> bool:
        principal, host, operation, type, name = question
        has_rules = allowed = False
        for acl in index.about(type, name):
            has_rules = True
            if not _concerns(acl, principal, host, operation):
                continue
            if acl.permission is Permission.DENY:
                return False
            allowed = True
        return allowed or (not has_rules and self._allow_if_no_acl)


class RuleIndex:
    """Rules by their pattern, so that a question meets only the rules about its resource."""

    def __init__(self, rules: Rules) -> None:
        self._literal: dict[tuple[ResourceType, str], Collection[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], Collection[Acl]] = {}
        # The lengths of the prefixes of a type.
        self._lengths: defaultdict[ResourceType, set[int]] = defaultdict(set)
        self._by_type: defaultdict[ResourceType, list[Pattern]] = defaultdict(list)
        self._rules = {
            pattern: [_comparable(acl) for acl in acls] for pattern, acls in rules.items()
        }
        for pattern, acls in self._rules.items():
            self._by_type[pattern.type].append(pattern)
            key = pattern.type, pattern.name
            if pattern.pattern_type is PatternType.LITERAL:
                self._literal[key] = acls
            else:
                self._prefixed[key] = acls
                self._lengths[pattern.type].add(len(pattern.name))

    def about(self, type: ResourceType, name: str) -> Iterator[Acl]:
        """Yield the rules about a resource."""
        yield from self._literal.get((type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((type, WILDCARD), ())
        for length in self._lengths.get(type, ()):
            if length <= len(name):
                yield from self._prefixed.get((type, name[:length]), ())

    def of_type(self, type: ResourceType) -> Iterable[tuple[Pattern, Acl]]:
        """Yield all rules about resources of a type."""
        for pattern in self._by_type.get(type, ()):
            for acl in self._rules[pattern]:
                yield pattern, acl


def _comparable(acl: Acl) -> Acl:
    """Return the rule with its host in the form of `Session.host`. Kafka compares the rule's text,
    so a rule for `::1` never holds there."""
    host = host_text(acl.host)
    return acl if host == acl.host else msgspec.structs.replace(acl, host=host)


def _concerns(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    if acl.principal not in (principal, ANY_PRINCIPAL) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, _NONE)


def _dominated(allowed: Pattern, denied: Collection[Pattern]) -> bool:
    """Return True if every name that the pattern allows is denied by one pattern."""
    if allowed.pattern_type is PatternType.LITERAL and allowed in denied:
        return True
    if allowed.pattern_type is PatternType.LITERAL and allowed.name == WILDCARD:
        return False
    return any(
        Pattern(allowed.type, allowed.name[:length], PatternType.PREFIXED) in denied
        for length in range(1, len(allowed.name) + 1)
    )
