"""`oncelog acls`: access rules, and the explanation of a decision."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any, Final

import click

from oncelog_client.admin import Admin
from oncelog_client.admin.config_descriptions import ConfigResource, ResourceType
from oncelog_client.cli.acl_options import (
    OPERATIONS,
    PERMISSIONS,
    PRINCIPAL,
    add_command,
    check_operations,
    remove_command,
    resource_options,
    resources,
)
from oncelog_client.cli.acl_recipes import Grant, recipe, recipe_options
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import DENIED, Failed
from oncelog_client.cli.names import NAME
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, for_people, note, say, show, show_json
from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
)
from oncelog_client.core.acl_explanation import (
    WILDCARD,
    AclExplanation,
    AclQuestion,
    Reason,
    explain,
)
from oncelog_client.errors import KafkaError

COLUMNS: Final = (
    Column("Permission"),
    Column("Operation"),
    Column("Principal", "id"),
    Column("Host", "id", rank=1),
    Column("Resource"),
    Column("Name", "id"),
    Column("Pattern", rank=2),
)
RESULT_COLUMNS: Final = (*COLUMNS, Column("Result"))
EXPLAIN_COLUMNS: Final = (Column("Rule"), Column("Differs"), *COLUMNS)
# Maximum number of rules that nearly allow an operation, except in JSON.
NEAR: Final = 10

operation_option = click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="OPERATION",
    type=click.Choice(list(OPERATIONS), case_sensitive=False),
    help="read, write, create, describe, alter-configs, all …",
)
prefixed_option = click.option(
    "--prefixed", is_flag=True, help="The name is the beginning of the resources' names."
)


@click.group(
    cls=ToolGroup,
    examples=[
        "acls list --topic orders",
        "acls add --allow User:alice --operation read --topic orders",
        "acls explain --principal User:alice --operation read --topic orders",
    ],
)
@connection_options
@output_option
def acls(**_: object) -> None:
    """List, add and remove access rules (ACLs), explain a decision."""


@acls.command("list", examples=["acls list", "acls list --topic orders --principal User:alice"])
@connection_options
@resource_options(multiple=True)
@click.option("--exact", is_flag=True, help="No rules of prefixes and of *.")
@click.option("--principal", "principals", multiple=True, type=PRINCIPAL, help="Only its rules.")
@output_option
def list_(*, exact: bool, principals: tuple[str, ...], output: str, **given: Any) -> None:
    """Show the rules about resources, by default all rules."""
    pattern_type = PatternType.ANY if exact else PatternType.MATCH
    filters = [AclBindingFilter(*pattern) for pattern in resources(given, pattern_type)]
    found = ask(lambda admin: _described(admin, filters or [AclBindingFilter()]))
    rows = [_row(rule) for rule in found if not principals or rule.entry.principal in principals]
    show(COLUMNS, rows, output=output, empty="no access rules")


@acls.command(
    examples=[
        "acls add --allow User:alice --operation read --topic orders",
        "acls add --allow User:etl --operation write --operation describe --topic sales. "
        "--prefixed",
        "acls add --deny User:bob --operation all --cluster --host 10.0.0.1",
        "acls add --allow User:spark --oncelog-sink lengths --topic lengths",
    ]
)
@connection_options
@click.option("--allow", multiple=True, type=PRINCIPAL, help="A principal to allow.")
@click.option("--deny", multiple=True, type=PRINCIPAL, help="A principal to deny.")
@operation_option
@resource_options(multiple=True)
@recipe_options
@prefixed_option
@click.option("--host", "hosts", multiple=True, type=NAME, help="Only from this address.  [*]")
@output_option
def add(
    *,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    operations: tuple[str, ...],
    prefixed: bool,
    hosts: tuple[str, ...],
    output: str,
    **given: Any,
) -> None:
    """Add rules: each principal, operation, host and resource is a rule."""
    chosen = recipe(given, operations, prefixed=prefixed)
    grants = _grants(given, operations, prefixed) if chosen is None else chosen.grants
    if chosen is not None and deny:
        raise click.UsageError("--oncelog-source and --oncelog-sink have no --deny")
    if not allow and not deny:
        raise click.UsageError("--allow or --deny is needed")
    rules = [
        AclBinding(pattern, AccessControlEntry(name, host, operation, permission))
        for names, permission in ((allow, PERMISSIONS["allow"]), (deny, PERMISSIONS["deny"]))
        for (pattern, operation), host, name in product(grants, hosts or (WILDCARD,), names)
    ]
    ask(lambda admin: admin.create_acls(rules))
    show(RESULT_COLUMNS, [(*_row(rule), "added") for rule in rules], output=output)
    for sentence in () if chosen is None else chosen.optional:
        note(f"optional: {sentence}")


@acls.command(
    examples=[
        "acls remove --principal User:alice --topic orders",
        "acls remove --principal User:bob --permission deny",
        "acls remove --topic sales. --prefixed",
    ]
)
@connection_options
@click.option("--principal", "principals", multiple=True, type=PRINCIPAL, help="Of a principal.")
@click.option("--permission", type=click.Choice(list(PERMISSIONS)), help="Only these rules.")
@operation_option
@resource_options(multiple=True)
@prefixed_option
@click.option("--host", "hosts", multiple=True, type=NAME, help="Only rules of this host.")
@click.option("--all", "every", is_flag=True, help="Every rule.")
@output_option
def remove(
    *,
    principals: tuple[str, ...],
    permission: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    hosts: tuple[str, ...],
    every: bool,
    output: str,
    **given: Any,
) -> None:
    """Remove the rules that all the options match. A name must be exactly that of the rule."""
    patterns = resources(given, _pattern_type(prefixed))
    if prefixed and (every or given["cluster"]):
        raise click.UsageError("--prefixed is for the rules of names, not for --all or --cluster")
    if every == bool(patterns or principals):
        raise click.UsageError("a resource or --principal is needed, or --all for every rule")
    check_operations(patterns, operations)
    kind = AclPermissionType.ANY if permission is None else PERMISSIONS[permission]
    named = PatternType.PREFIXED if prefixed else PatternType.ANY
    chosen = [AclBindingFilter(*pattern) for pattern in patterns] or [
        AclBindingFilter(pattern_type=named)
    ]
    wanted = [OPERATIONS[name] for name in operations]
    filters = [
        row._replace(principal=name, host=host, operation=operation, permission_type=kind)
        for row, name, host, operation in product(
            chosen,
            principals or (None,),
            hosts or (None,),
            wanted or [AclOperation.ANY],
        )
    ]
    removed = ask(lambda admin: admin.delete_acls(filters))
    if not removed:
        raise Failed("no access rule matches these options; `oncelog acls list` shows the rules")
    show(RESULT_COLUMNS, [(*_row(rule), "removed") for rule in removed], output=output)


@acls.command(
    "explain",
    examples=[
        "acls explain --principal User:alice --operation read --topic orders",
        "acls explain --principal User:etl --host 10.0.0.7 --operation read --group g",
    ],
)
@connection_options
@click.option("--principal", required=True, type=PRINCIPAL, help="The principal of the client.")
@click.option("--host", default=WILDCARD, type=NAME, help="Its address.  [one that no rule names]")
@click.option(
    "--operation",
    required=True,
    metavar="OPERATION",
    type=click.Choice([name for name in OPERATIONS if name != "all"], case_sensitive=False),
    help="read, write, create, describe, alter-configs …",
)
@resource_options(multiple=False)
@output_option
def explain_(*, principal: str, host: str, operation: str, output: str, **given: Any) -> None:
    """Show the rule by which a broker allows or denies an operation.

    Exit code 0 if it is allowed, 3 if it is denied, 1 if the rules cannot be read.

    If no rule decides, show the rules that nearly allow it, and what would allow it.
    """
    patterns = resources(given, PatternType.LITERAL)
    if len(patterns) != 1:
        raise click.UsageError("exactly one resource is needed, such as --topic")
    check_operations(patterns, [operation])
    (pattern,) = patterns
    question = AclQuestion(
        principal, host, OPERATIONS[operation], pattern.resource_type, pattern.name
    )

    async def call(admin: Admin) -> tuple[AclExplanation, bool]:
        rules = await admin.describe_acls(AclBindingFilter(pattern.resource_type))
        super_users, allow_if_no_acl = await _broker_settings(admin)
        found = explain(
            question, rules, super_users=super_users or (), allow_if_no_acl=allow_if_no_acl
        )
        return found, super_users is not None

    explanation, knows_super_users = ask(call)
    _show_explanation(explanation, output)
    if not knows_super_users:
        note("the brokers do not show super.users, so a super user is not recognized")
    if not explanation.is_allowed:
        click.get_current_context().exit(DENIED)


def _show_explanation(found: AclExplanation, output: str) -> None:
    commands = _commands(found)
    rows = [("decides", "", *_row(rule)) for rule in found.deciding]
    near = [("nearly allows", ", ".join(row.differs), *_row(row.binding)) for row in found.near]
    if output == "json":
        names = [column.name for column in COLUMNS]
        show_json(
            {
                "allowed": found.is_allowed,
                "reason": found.reason.name.lower(),
                "deciding": [dict(zip(names, _row(rule), strict=True)) for rule in found.deciding],
                "near": [
                    {**dict(zip(names, _row(row.binding), strict=True)), "differs": row.differs}
                    for row in found.near
                ],
                "to_allow": commands,
            }
        )
        return
    if not for_people(output):
        show(EXPLAIN_COLUMNS, rows + near, output=output)
        return
    say(_sentence(found))
    if rows or near:
        show(EXPLAIN_COLUMNS, rows + near[:NEAR], output=output)
    if len(near) > NEAR:
        note(f"{len(near) - NEAR} more rules nearly allow it: --output json")
    for command in commands:
        say(f"to allow it: {command}")


def _sentence(found: AclExplanation) -> str:
    asked = found.question
    verb = "may" if found.is_allowed else "may not"
    where = "" if asked.host == WILDCARD else f" from {asked.host}"
    reason = found.reason.value
    if found.reason is Reason.NO_RULES:
        allows = str(found.is_allowed).lower()
        reason += f", and allow.everyone.if.no.acl.found is {allows}"
    return (
        f"{asked.principal} {verb} {asked.operation.name} "
        f"{asked.resource_type.name} {asked.name}{where}: {reason}"
    )


def _commands(found: AclExplanation) -> list[str]:
    """Return the commands after which the operation is allowed."""
    if found.is_allowed:
        return []
    commands = [remove_command(rule) for rule in found.deciding]
    return commands if found.missing is None else [*commands, add_command(found.missing)]


async def _broker_settings(admin: Admin) -> tuple[list[str] | None, bool]:
    """Return the super users (None if they are unknown) and allow.everyone.if.no.acl.found."""
    node = (await admin.describe_cluster()).nodes[0].node_id
    resource = ConfigResource(ResourceType.BROKER, str(node))
    try:
        settings = (await admin.describe_configs([resource]))[resource]
    except KafkaError:
        return None, False
    super_users = settings.get("super.users")
    default = settings.get("allow.everyone.if.no.acl.found")
    allows = default is not None and (default.value or "").strip().lower() == "true"
    if super_users is None or super_users.value is None:
        return None, allows
    return [name.strip() for name in super_users.value.split(";") if name.strip()], allows


def _grants(given: dict[str, Any], operations: tuple[str, ...], prefixed: bool) -> list[Grant]:
    patterns = resources(given, _pattern_type(prefixed))
    if not patterns:
        raise click.UsageError("a resource is needed, such as --topic")
    if not operations:
        raise click.UsageError("--operation is needed")
    check_operations(patterns, operations)
    return [(pattern, OPERATIONS[name]) for pattern, name in product(patterns, operations)]


def _pattern_type(prefixed: bool) -> PatternType:
    return PatternType.PREFIXED if prefixed else PatternType.LITERAL


async def _described(admin: Admin, filters: Iterable[AclBindingFilter]) -> list[AclBinding]:
    found: set[AclBinding] = set()
    for chosen in filters:
        found.update(await admin.describe_acls(chosen))
    return sorted(found)


def _row(rule: AclBinding) -> tuple[str, ...]:
    (kind, name, pattern), (principal, host, operation, permission) = rule
    return (
        permission.name, operation.name, principal, host, kind.name, name, pattern.name
    )  # fmt: skip
