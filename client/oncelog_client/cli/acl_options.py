"""The options of `oncelog acls`: resources, operations and principals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Any, Final, TypeVar

import click

from oncelog_client.cli.names import NAME
from oncelog_client.core.acl_bindings import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.core.acl_explanation import WILDCARD

# Parameter -> the type of its resources.
NAMED: Final[Mapping[str, AclResourceType]] = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user": AclResourceType.USER,
}
# Names as in Kafka's documentation, in lower case: `describe-configs`.
OPERATIONS: Final[Mapping[str, AclOperation]] = {
    operation.name.lower().replace("_", "-"): operation
    for operation in AclOperation
    if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
PERMISSIONS: Final = {"allow": AclPermissionType.ALLOW, "deny": AclPermissionType.DENY}
F = TypeVar("F", bound=Callable[..., Any])


class PrincipalType(click.ParamType):  # type: ignore[type-arg]  # click 8.4 made it generic
    """A principal: `User:alice`."""

    name = "principal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the principal. Raises click.BadParameter if it has no type."""
        text: str = NAME.convert(value, param, ctx)
        kind, colon, _ = text.partition(":")
        if not kind or not colon:
            self.fail(f"{text!r} is not a principal such as User:{text.lstrip(':')}", param, ctx)
        return text


PRINCIPAL: Final = PrincipalType()


def resource_options(*, multiple: bool) -> Callable[[F], F]:
    """Return a decorator that adds the options of resources, each once or several times."""

    def add(command: F) -> F:
        for name in reversed(list(NAMED)):
            flag = f"--{name.replace('_', '-')}"
            command = click.option(
                flag, metavar="NAME", multiple=multiple, type=NAME, help=_HELP[name]
            )(command)
        return click.option("--cluster", is_flag=True, help="The cluster.")(command)

    return add


_HELP: Final = {
    "topic": "A topic; * stands for all.",
    "group": "A consumer group.",
    "transactional_id": "A transactional id.",
    "delegation_token": "A delegation token.",
    "user": "A user with tokens, as User:alice.",
}


def resources(given: Mapping[str, Any], pattern_type: PatternType) -> list[ResourcePattern]:
    """Return the resources of the options in `given`, without the pattern type for the cluster."""
    found = []
    for name, kind in NAMED.items():
        values = given[name] if isinstance(given[name], tuple) else (given[name],)
        found += [ResourcePattern(kind, value, pattern_type) for value in values if value]
    if given["cluster"]:
        found.append(ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME))
    return found


def check_operations(patterns: Iterable[ResourcePattern], operations: Iterable[str]) -> None:
    """Raise click.UsageError if a resource has not one of the operations."""
    for pattern in patterns:
        supported = {AclOperation.ALL, *SUPPORTED_OPERATIONS[pattern.resource_type]}
        for operation in operations:
            if OPERATIONS[operation] not in supported:
                names = ", ".join(name for name, code in OPERATIONS.items() if code in supported)
                kind = pattern.resource_type.name.lower().replace("_", " ")
                raise click.UsageError(f"a {kind} has no operation {operation}, only {names}")


def flags_of(pattern: ResourcePattern) -> list[str]:
    """Return the words of a command line that name the resources of a pattern."""
    if pattern.resource_type is AclResourceType.CLUSTER:
        return ["--cluster"]
    name = next(name for name, kind in NAMED.items() if kind is pattern.resource_type)
    prefixed = ["--prefixed"] if pattern.pattern_type is PatternType.PREFIXED else []
    return [f"--{name.replace('_', '-')}", pattern.name, *prefixed]


def add_command(rule: AclBinding) -> str:
    """Return the command line that adds a rule."""
    entry = rule.entry
    words = ["acls", "add", f"--{entry.permission_type.name.lower()}", entry.principal]
    return _line([*words, *_entry_flags(rule)])


def remove_command(rule: AclBinding) -> str:
    """Return the command line that removes exactly this rule."""
    entry = rule.entry
    permission = ["--permission", entry.permission_type.name.lower()]
    # Without --host, the command removes the rules of every host.
    host = ["--host", WILDCARD] if entry.host == WILDCARD else []
    words = ["acls", "remove", "--principal", entry.principal, *permission, *host]
    return _line([*words, *_entry_flags(rule)])


def _entry_flags(rule: AclBinding) -> list[str]:
    host = [] if rule.entry.host == WILDCARD else ["--host", rule.entry.host]
    operation = rule.entry.operation.name.lower().replace("_", "-")
    return [*host, "--operation", operation, *flags_of(rule.pattern)]


def _line(words: Iterable[str]) -> str:
    return " ".join(["oncelog", *map(quote, words)])
