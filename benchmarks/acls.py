"""A thousand access rules (ACLs), as a cluster of 40 applications and 10 teams may have them.

The loads write to topics with the prefix `bench-`, as User:ANONYMOUS. These topics have rules of
all kinds: literal and prefixed, of several principals and hosts, and some that deny.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Final

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest
from oncelog_server.security.acls import ANY, ANY_PRINCIPAL, WILDCARD, PatternType, Permission
from oncelog_server.security.resources import Operation, ResourceType
from oncelog_server.settings.security import STANDARD_AUTHORIZER

RULES: Final = 1_000
APPLICATIONS: Final = 40
TEAMS: Final = 10
# The topics of an application, and the measured topics that have rules of their own.
TOPICS_EACH: Final = 8
MEASURED_TOPICS: Final = 20

# A resource without rules denies nothing, so the cluster resource needs no rules.
SETTINGS: Final[Mapping[str, str]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}

MEASURED: Final = "bench-"
CONTRACTOR: Final = "User:contractor"
_CLIENT: Final = "User:ANONYMOUS"
_PER_REQUEST: Final = 250
_DEADLINE_S: Final = 60.0

_ALLOW, _DENY = Permission.ALLOW, Permission.DENY
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


class NotInForce(Exception):
    """The broker does not have all the rules."""


def thousand_rules() -> list[AclCreation]:
    """Return the rules. All are different."""
    return list(islice(_rules(), RULES))


def _rules() -> Iterator[AclCreation]:
    yield from _of_measured_topics()
    for number in range(APPLICATIONS):
        yield from _of_application(number)
    for number in range(TEAMS):
        yield from _of_team(number)
    for number in count():
        yield _topic(f"archive-{number}", "User:audit", Operation.READ)


def _of_measured_topics() -> Iterator[AclCreation]:
    yield _topic(MEASURED, _CLIENT, Operation.ALL, pattern=_PREFIXED)
    yield _topic(MEASURED, CONTRACTOR, Operation.WRITE, pattern=_PREFIXED, permission=_DENY)
    yield _from_outside(MEASURED)
    for number in range(TEAMS):
        yield _topic(MEASURED, _application(number), Operation.READ, pattern=_PREFIXED)
    for number in range(MEASURED_TOPICS):
        yield _topic(f"{MEASURED}{number:05}", _application(number), Operation.WRITE)
    for prefix in (MEASURED[:1], MEASURED[:3]):
        yield _topic(prefix, CONTRACTOR, Operation.DELETE, pattern=_PREFIXED, permission=_DENY)
    yield _topic(WILDCARD, "User:monitor", Operation.DESCRIBE)
    yield _topic(WILDCARD, CONTRACTOR, Operation.ALTER, permission=_DENY)


def _of_application(number: int) -> Iterator[AclCreation]:
    name = _application(number)
    for topic in range(TOPICS_EACH):
        yield _topic(f"orders-{number}-{topic}", name, Operation.WRITE)
        yield _topic(f"orders-{number}-{topic}", _application(number + 1), Operation.READ)
    yield _rule(ResourceType.GROUP, f"group-{number}", _LITERAL, name, Operation.READ)
    yield _rule(ResourceType.TRANSACTIONAL_ID, f"job-{number}-", _PREFIXED, name, Operation.WRITE)


def _of_team(number: int) -> Iterator[AclCreation]:
    prefix = f"team-{number}."
    yield _topic(prefix, f"User:lead-{number}", Operation.ALL, pattern=_PREFIXED)
    yield _topic(prefix, CONTRACTOR, Operation.WRITE, pattern=_PREFIXED, permission=_DENY)
    yield _from_outside(prefix)
    for member in range(number, APPLICATIONS, TEAMS):
        yield _topic(prefix, _application(member), Operation.READ, pattern=_PREFIXED)
    lead = f"User:lead-{number}"
    yield _rule(ResourceType.GROUP, prefix, _PREFIXED, lead, Operation.READ)


def _application(number: int) -> str:
    return f"User:application-{number % APPLICATIONS}"


def _from_outside(prefix: str) -> AclCreation:
    """Return the rule that an address of another network may do nothing."""
    return AclCreation(
        ResourceType.TOPIC, prefix, _PREFIXED, ANY_PRINCIPAL, "192.0.2.1", Operation.ALL, _DENY
    )


def _topic(
    name: str,
    principal: str,
    operation: Operation,
    *,
    pattern: PatternType = _LITERAL,
    permission: Permission = _ALLOW,
) -> AclCreation:
    return _rule(ResourceType.TOPIC, name, pattern, principal, operation, permission)


def _rule(
    kind: ResourceType,
    name: str,
    pattern: PatternType,
    principal: str,
    operation: Operation,
    permission: Permission = _ALLOW,
) -> AclCreation:
    return AclCreation(kind, name, pattern, principal, WILDCARD, operation, permission)


def put_in_force(address: str) -> None:
    """Create the rules on a broker, and wait until it has all of them. Raises NotInForce."""
    rules = thousand_rules()
    with Wire(address) as wire:
        for start in range(0, RULES, _PER_REQUEST):
            response = wire.call(CreateAclsRequest(rules[start:][:_PER_REQUEST]))
            for result in response.results:
                if result.error_code != ErrorCode.NONE:
                    raise NotInForce(f"{ErrorCode(result.error_code).name} {result.error_message}")
        deadline = time.monotonic() + _DEADLINE_S
        while (found := count_rules(wire)) != RULES:
            if time.monotonic() > deadline:
                raise NotInForce(f"{found} of {RULES} access rules after {_DEADLINE_S} s")
            time.sleep(0.05)


def count_rules(wire: Wire) -> int:
    """Return the number of rules that a broker has."""
    every = DescribeAclsRequest(
        resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY
    )
    return sum(len(resource.acls) for resource in wire.call(every).resources)
