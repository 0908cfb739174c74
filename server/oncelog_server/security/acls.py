"""Access rules (ACLs): rules on a pattern of resource names, and filters that choose rules (KIP-11,
KIP-290).

The checks and messages are those of Kafka's AclApis and AclControlManager.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, TypeVar

import msgspec

from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import CLUSTER, Operation, ResourceType

# Stands for any name of a resource, any host, and as `User:*` for any principal.
WILDCARD: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
# The codes UNKNOWN and ANY of each field.
UNKNOWN: Final = 0
ANY: Final = 1

E = TypeVar("E", bound=IntEnum)


class PatternType(IntEnum):
    """Codes as in Kafka's PatternType. MATCH occurs only in filters."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Codes as in Kafka's AclPermissionType."""

    DENY = 2
    ALLOW = 3


class Pattern(msgspec.Struct, frozen=True, order=True):
    """The resources that a rule is about: those with this name or this prefix. The literal name `*`
    stands for all resources of the type."""

    type: ResourceType
    name: str
    pattern_type: PatternType


class Acl(msgspec.Struct, frozen=True, order=True):
    """A rule of a pattern. `principal` is text as `User:alice`, `host` an address or `*`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


def rule_text(pattern: Pattern, acl: Acl) -> str:
    """Return a rule as text: `ALLOW READ by User:alice from * on TOPIC PREFIXED orders`."""
    return (
        f"{acl.permission.name} {acl.operation.name} by {acl.principal} from {acl.host} on "
        f"{pattern.type.name} {pattern.pattern_type.name} {pattern.name}"
    )


def allows_anything(rules: Mapping[Pattern, Collection[Acl]]) -> bool:
    """Return True if there is a rule that allows something."""
    return any(acl.permission is Permission.ALLOW for acls in rules.values() for acl in acls)


class AclFilter(msgspec.Struct, frozen=True):
    """Chooses rules. The codes are those of the request: ANY stands for any value, and a code that
    Kafka does not have chooses no rule. None stands for any text."""

    type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches_pattern(self, pattern: Pattern) -> bool:
        """Return True if the pattern is one that the filter asks for. With MATCH, the filter asks
        for every pattern that `name` fits (Kafka's ResourcePatternFilter)."""
        if self.type not in (ANY, pattern.type):
            return False
        if self.pattern_type not in (ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def matches(self, acl: Acl) -> bool:
        """Return True if the rule of a matching pattern is one that the filter asks for."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def check(self) -> None:
        """Raise Refused with INVALID_REQUEST if a code is one that Kafka does not have."""
        if not (_is_code(ResourceType, self.type) and _is_code(PatternType, self.pattern_type)):
            raise _invalid("Unknown patternFilter.")
        if not (_is_code(Operation, self.operation) and _is_code(Permission, self.permission)):
            raise _invalid("Unknown entryFilter.")


def check_known(*codes: int) -> None:
    """Raise ProtocolError if a code of an ACL or of a filter of ACLs is UNKNOWN. Kafka cannot parse
    such a request either, and closes the connection."""
    if UNKNOWN in codes:
        raise ProtocolError("an ACL with a type, an operation or a permission that is UNKNOWN")


def is_specific(resource_type: int, pattern_type: int, operation: int, permission: int) -> bool:
    """Return True if no code is ANY or MATCH, which only a filter may have."""
    codes = (resource_type, pattern_type, operation, permission)
    return ANY not in codes and pattern_type != PatternType.MATCH


def new_acl(
    resource_type: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> tuple[Pattern, Acl]:
    """Return a rule to be created. Its codes must be specific (`is_specific`). Raises Refused with
    INVALID_REQUEST."""
    if resource_type == ResourceType.CLUSTER and name != CLUSTER.name:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not name:
        raise _invalid("Invalid empty resource name")
    resource = _known(ResourceType, resource_type)
    kind = _known(PatternType, pattern_type)
    allowed = _known(Operation, operation), _known(Permission, permission)
    if ":" not in principal:
        raise _invalid(
            f"Could not parse principal from `{principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return Pattern(resource, name, kind), Acl(principal, host, *allowed)


def _known(kind: type[E], code: int) -> E:
    if not _is_code(kind, code):
        raise _invalid(f"Invalid {_FIELDS[kind]} UNKNOWN")
    return kind(code)


def _is_code(kind: type[IntEnum], code: int) -> bool:
    return code == ANY or code in kind._value2member_map_


_FIELDS: Final[dict[type[IntEnum], str]] = {
    ResourceType: "resourceType",
    PatternType: "patternType",
    Operation: "operation",
    Permission: "permissionType",
}


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
