"""Kafka's StandardAuthorizer: decisions from access rules (KIP-801).

A rule that denies overrides every rule that allows. No rule is more specific than another. The
decision is that of `StandardAuthorizerData.findResult`, and `authorize_any` that of
`Authorizer.authorizeByResourceType`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from oncelog_protocol.security.hosts import host_text
from oncelog_server.security.acls import (
    ANY_PRINCIPAL,
    WILDCARD,
    Acl,
    Pattern,
    PatternType,
    Permission,
    rule_text,
)
from oncelog_server.security.authorizer import Subject
from oncelog_server.security.denials import Denials
from oncelog_server.security.resources import Operation, Principal, Resource, ResourceType

Rules = Mapping[Pattern, Collection[Acl]]

# A rule that allows an operation of the set also allows the operation of the key.
_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[Operation]] = frozenset()
# Maximum number of cached decisions. All are dropped when there are more, and when a rule changes.
_MAX_DECISIONS: Final = 65_536
# A decision about a longer name is not kept: a client may name any group or transactional id, and
# the names would take gigabytes. This is the length of the longest name of a topic.
_LONGEST_NAME: Final = 249
# Kafka's authorizeByResourceType first checks a resource of this name.
_SOME_NAME: Final = "hardcode"

# The key of a decision: principal, host, operation, type and name of the resource.
_Key = tuple[Principal, str, Operation, ResourceType, str]
_Rule = tuple[Pattern, Acl]


class Decision(NamedTuple):
    """`rule` is the rule that decided: a rule that denies, or else the first found rule that
    allows. It is None if no rule concerns the request, and for a super user."""

    allowed: bool
    rule: _Rule | None = None


class StandardAuthorizer:
    """Decides by the rules that `rules` returns. They are indexed again only if it returns another
    object.

    `super_users` are principals as text. They need no rule, and no rule denies them
    anything. `allow_if_no_acl` is the decision for a resource without rules
    (allow.everyone.if.no.acl.found). `denials` logs denied requests.
    """

    def __init__(
        self,
        rules: Callable[[], Rules],
        super_users: Collection[str],
        *,
        allow_if_no_acl: bool,
        denials: Denials | None = None,
    ) -> None:
        self._rules = rules
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._denials = denials
        # Denied requests since the start, including those that are not logged.
        self.denied_total = 0
        self._indexed: Rules | None = None
        self._index = RuleIndex({})
        self._decisions: dict[_Key, Decision] = {}

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        rules = self._rules()
        if rules is not self._indexed:
            self._index_again(rules)
        key = (subject.principal, subject.host, operation, resource.type, resource.name)
        # Without a call of `decide`, because this is the path of every request.
        decision = self._decisions.get(key)
        return (self._decided(key) if decision is None else decision).allowed

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        if self.authorize(subject, operation, Resource(type, _SOME_NAME)):
            return True
        principals = str(subject.principal), ANY_PRINCIPAL
        concerning = [
            (pattern, acl.permission)
            for pattern, acl in self._index.of_type(type)
            if acl.principal in principals
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

    def denied(
        self,
        subject: Subject,
        operation: Operation,
        resource: Resource,
        api_key: int,
        *,
        logged: bool,
    ) -> None:
        self.denied_total += 1
        if logged and self._denials is not None:
            # No rule has changed since the decision: both are in one turn of the loop.
            rule = _rule_text(self.decide(subject, operation, resource))
            self._denials.add(subject, operation, resource, api_key, rule)

    def flush(self) -> None:
        if self._denials is not None:
            self._denials.flush()

    def decide(self, subject: Subject, operation: Operation, resource: Resource) -> Decision:
        """Return the decision with the rule that decides, by the rules of this moment."""
        rules = self._rules()
        if rules is not self._indexed:
            self._index_again(rules)
        key = (subject.principal, subject.host, operation, resource.type, resource.name)
        return self._decisions.get(key) or self._decided(key)

    def _decided(self, key: _Key) -> Decision:
        """Decide, and keep the decision."""
        decision = self._decide(self._index, key)
        if len(key[-1]) <= _LONGEST_NAME:
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    @property
    def rule_count(self) -> int:
        """Return the number of rules."""
        return sum(map(len, self._rules().values()))

    def _index_again(self, rules: Rules) -> None:
        self._indexed, self._index = rules, RuleIndex(rules)
        self._decisions.clear()

    def _decide(self, index: RuleIndex, key: _Key) -> Decision:
        known, host, operation, type, name = key
        principal = str(known)
        if principal in self._super_users:
            return Decision(True)
        has_rules = False
        allowed: Decision | None = None
        for pattern, acl in index.about(type, name):
            has_rules = True
            if not _concerns(acl, principal, host, operation):
                continue
            if acl.permission is Permission.DENY:
                return Decision(False, (pattern, acl))
            allowed = allowed or Decision(True, (pattern, acl))
        return allowed or Decision(not has_rules and self._allow_if_no_acl)


class RuleIndex:
    """Rules by their pattern, so that a decision reads only the rules about its resource."""

    def __init__(self, rules: Rules) -> None:
        self._literal: dict[tuple[ResourceType, str], list[_Rule]] = {}
        self._prefixed: dict[tuple[ResourceType, str], list[_Rule]] = {}
        # The lengths of the prefixes of a type.
        self._lengths: defaultdict[ResourceType, set[int]] = defaultdict(set)
        self._by_type: defaultdict[ResourceType, list[_Rule]] = defaultdict(list)
        for pattern, written in rules.items():
            acls = [(pattern, _comparable(acl)) for acl in written]
            self._by_type[pattern.type] += acls
            key = pattern.type, pattern.name
            if pattern.pattern_type is PatternType.LITERAL:
                self._literal[key] = acls
            else:
                self._prefixed[key] = acls
                self._lengths[pattern.type].add(len(pattern.name))

    def about(self, type: ResourceType, name: str) -> Iterator[_Rule]:
        """Yield the rules about a resource."""
        yield from self._literal.get((type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((type, WILDCARD), ())
        for length in self._lengths.get(type, ()):
            if length <= len(name):
                yield from self._prefixed.get((type, name[:length]), ())

    def of_type(self, type: ResourceType) -> Iterable[_Rule]:
        """Return all rules about resources of a type."""
        return self._by_type.get(type, ())


def _comparable(acl: Acl) -> Acl:
    """Return the rule with its host in the form of `Session.host`. Kafka compares the rule's text,
    so in Kafka a rule for `::1` never holds."""
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


def _rule_text(decision: Decision) -> str:
    """Return the rule that decided, or Kafka's word for a denial that no rule explains."""
    return "DefaultDeny" if decision.rule is None else rule_text(*decision.rule)
