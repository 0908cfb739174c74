"""kafka-acls.sh: adds, removes and lists access rules (ACLs)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from oncelog_client.admin import acls
from oncelog_client.cli.options import run
from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
)
from oncelog_client.errors import KafkaError
from oncelog_client.kafka_tools.acl_options import (
    Entries,
    entries,
    new_entries,
    parsed,
    principals,
    resources,
)
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, of_client
from oncelog_client.kafka_tools.options import Given

_EXECUTION: Final = "java.util.concurrent.ExecutionException"


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    given = parsed(arguments)
    try:
        settings = read_settings(given.value("command-config"))
        run(_act(given, settings))
    except JavaError as error:
        sys.stdout.write(f"Error while executing ACL command: {error.message}\n{error}\n")
        return 1
    return 0


async def _act(given: Given, settings: dict[str, object]) -> None:
    async with connected(given.value("bootstrap-server"), settings, "describeAcls") as connection:
        try:
            if given.has("add"):
                await _add(connection, new_entries(given))
            elif given.has("remove"):
                await _remove(connection, given, entries(given))
            else:
                await _list(connection, given)
        except KafkaError as error:
            # The Java client's future wraps the error.
            raise JavaError(_EXECUTION, str(of_client(error))) from error


async def _add(connection: Connection, added: Entries) -> None:
    for pattern, acl_entries in added.items():
        existing = await _described(connection, [pattern])
        new = []
        for entry in acl_entries:
            binding = AclBinding(pattern, entry)
            if binding in existing:
                sys.stdout.write(f"Acl {binding} already exists.\n")
            else:
                new.append(binding)
        if new:
            lines = _lines(binding.entry for binding in new)
            sys.stdout.write(f"Adding ACLs for resource `{pattern}`: \n {lines}\n\n")
            await acls.create_acls(connection.cluster, new, connection.timeout_ms)


async def _remove(connection: Connection, given: Given, removed: Entries) -> None:
    for pattern, acl_entries in removed.items():
        what = f"delete all ACLs for resource filter `{pattern}`"
        if acl_entries:
            lines = _lines(acl_entries)
            what = f"remove ACLs: \n {lines}\n from resource filter `{pattern}`"
        if given.has("force") or _agrees(f"Are you sure you want to {what}? (y/n)"):
            every = AclBindingFilter(*pattern)
            chosen = [every._replace(**entry._asdict()) for entry in acl_entries]
            await acls.delete_acls(connection.cluster, chosen or [every], connection.timeout_ms)


async def _list(connection: Connection, given: Given) -> None:
    found = await _described(connection, resources(given))
    names = principals(given, "principal")
    if not names:
        _print(found)
    for name in names:
        sys.stdout.write(f"ACLs for principal `{name}`\n")
        _print([binding for binding in found if binding.entry.principal == name])


async def _described(
    connection: Connection, patterns: Collection[ResourcePattern]
) -> list[AclBinding]:
    """Return the rules that the patterns choose. Without patterns, return all."""
    filters = [AclBindingFilter(*pattern) for pattern in patterns] or [AclBindingFilter()]
    found: dict[AclBinding, None] = {}
    for chosen in filters:
        rows = await acls.describe_acls(connection.cluster, chosen, connection.timeout_ms)
        found.update(dict.fromkeys(rows))
    return list(found)


def _print(bindings: Iterable[AclBinding]) -> None:
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in bindings:
        by_pattern.setdefault(pattern, []).append(entry)
    for pattern, acl_entries in by_pattern.items():
        sys.stdout.write(f"Current ACLs for resource `{pattern}`:\n{_lines(acl_entries)}\n\n")


def _lines(acl_entries: Iterable[AccessControlEntry]) -> str:
    return "\n".join(f"\t{entry}" for entry in acl_entries)


def _agrees(question: str) -> bool:
    sys.stdout.write(f"{question}\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "y"
