"""`oncelog config`: the verbs and flags of kafka-configs for topics and brokers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import click

from oncelog_client.admin import (
    Admin,
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from oncelog_client.cli.commands import Tool, suggestion
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.names import INT32_MAX, NAME
from oncelog_client.cli.options import (
    connection_options,
    exactly_one,
    output_option,
    split_config,
)
from oncelog_client.cli.output import Column, show
from oncelog_client.core.move_throttles import FOLLOWER_RATE, LEADER_RATE

COLUMNS: Final = (
    Column("Entity", "id"),
    Column("Name", "id"),
    Column("Value", "id"),
    Column("Source", "id", rank=1),
    Column("Read only", rank=2),
)
ALTERED_COLUMNS: Final = (*COLUMNS[:2], Column("Old value", "id"), COLUMNS[2])
# The name of the settings of all brokers, and how it is shown.
ALL_BROKERS: Final = ""
EVERY: Final = "(all)"
# The rates of throttles. A description lists only those that are set.
RATES: Final = {LEADER_RATE, FOLLOWER_RATE, "replica.alter.log.dirs.io.max.bytes.per.second"}
# The settings of one listener have this prefix. A description lists only those that are set.
LISTENER_PREFIX: Final = "listener.name."
ENTITIES: Final = {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER}
# Without --all, --describe shows settings from these sources: the dynamic settings, as
# kafka-configs does.
SHOWN_BY_DEFAULT: Final = {
    ResourceType.TOPIC: {ConfigSource.DYNAMIC_TOPIC_CONFIG},
    ResourceType.BROKER: {
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    },
}

# name=value pairs between commas. A value with commas is in brackets.
_PAIR: Final = re.compile(r"[^,=\[\]]+=(?:\[[^\]]*\]|[^,]*)")


@click.command(
    cls=Tool,
    name_option="--topic",
    examples=[
        "config --describe --topic orders --all",
        "config --alter --topic orders --add-config retention.ms=86400000",
        "config --alter --topic orders --delete-config retention.ms",
        "config --alter --broker-defaults --add-config log.retention.ms=86400000",
    ],
)
@connection_options
@output_option
@click.option("--describe", is_flag=True, help="Print the dynamic settings.")
@click.option("--alter", is_flag=True, help="Set or delete settings.")
@click.option(
    "--all", "all_", is_flag=True, help="With --describe: static and default settings too."
)
@click.option("--topic", type=NAME, metavar="NAME", help="The topic that has the settings.")
@click.option("--broker", metavar="ID", help="The broker that has the settings.")
@click.option("--broker-defaults", is_flag=True, help="The settings of all brokers.")
@click.option(
    "--entity-type",
    type=click.Choice(["topics", "brokers"]),
    help="Kind of the resource, unless --topic or --broker is given.",
)
@click.option(
    "--entity-name",
    type=NAME,
    metavar="NAME",
    help="The topic, or the broker's id.  [default: all]",
)
@click.option(
    "--add-config", metavar="NAME=VALUE,…", help="Settings to set; a list is NAME=[VALUE,VALUE]."
)
@click.option("--delete-config", metavar="NAME,…", help="Settings to delete.")
def config(
    *,
    describe: bool,
    alter: bool,
    **flags: Any,
) -> None:
    """Describe and alter the settings of topics and brokers."""
    verb = exactly_one(describe=describe, alter=alter)
    kind, name = _entity(flags)
    added, deleted = parse_added(flags["add_config"]), _names(flags["delete_config"])
    if verb == "alter" and not (added or deleted):
        raise click.UsageError("--alter needs --add-config or --delete-config")
    if verb == "alter" and name is None:
        raise click.UsageError("--alter needs --entity-name")

    async def call(admin: Admin) -> None:
        resources = await _resources(admin, kind, name)
        if verb == "describe":
            rows = await _describe(admin, resources, flags["all_"])
            nothing = "no dynamic settings; --all shows static and default settings too"
            show(COLUMNS, rows, output=flags["output"], empty=nothing)
            return
        changes = [AlterConfigOp(key, value) for key, value in added.items()]
        changes += [AlterConfigOp(key, None, "delete") for key in deleted]
        before = await admin.describe_configs(resources) if resources else {}
        for resource in resources:
            await _check_deleted(admin, resource, deleted, before[resource])
        await admin.alter_configs(dict.fromkeys(resources, changes))
        after = await admin.describe_configs(resources) if deleted and resources else before
        altered = [
            _altered(
                resource,
                change,
                before[resource].get(change.name),
                after[resource].get(change.name),
            )
            for resource in resources
            for change in changes
        ]
        show(ALTERED_COLUMNS, altered, output=flags["output"], empty="nothing to alter")

    ask(call)


async def _check_deleted(
    admin: Admin, resource: ConfigResource, names: list[str], present: Mapping[str, ConfigEntry]
) -> None:
    """Raise Failed if a setting to delete is unknown. Brokers ignore an unknown name, so that a
    mistyped name would look like a success."""
    known = {*present}
    if resource.name == ALL_BROKERS and not known.issuperset(names):
        # The description of all brokers has only what was set for all.
        nodes = (await admin.describe_cluster()).nodes
        broker = ConfigResource(ResourceType.BROKER, str(nodes[0].node_id))
        known |= {*(await admin.describe_configs([broker]))[broker]}
    if resource.type is ResourceType.BROKER:
        known |= RATES
    for name in names:
        if name not in known and not name.startswith(LISTENER_PREFIX):
            kind = resource.type.name.lower()
            near = suggestion(name, sorted(known))
            raise Failed(f"--delete-config {name}: a {kind} has no setting of this name.{near}")


def _entity(flags: dict[str, Any]) -> tuple[ResourceType, str | None]:
    """Return the type of the resource and its name. The name None stands for all topics or
    brokers."""
    kind = exactly_one(
        topic=flags["topic"],
        broker=flags["broker"],
        broker_defaults=flags["broker_defaults"],
        entity_type=flags["entity_type"],
    )
    if kind == "entity_type":
        return ENTITIES[flags["entity_type"]], flags["entity_name"]
    if flags["entity_name"]:
        raise click.UsageError(f"--{kind.replace('_', '-')} excludes --entity-name")
    if kind == "broker_defaults":
        return ResourceType.BROKER, ALL_BROKERS
    return ENTITIES[f"{kind}s"], flags[kind]


async def _resources(admin: Admin, kind: ResourceType, name: str | None) -> list[ConfigResource]:
    if name is not None:
        if kind is ResourceType.BROKER and name != ALL_BROKERS and not _is_broker(name):
            raise click.UsageError(f"{name[:40]!r} is not the id of a broker")
        return [ConfigResource(kind, name)]
    if kind is ResourceType.TOPIC:
        return [ConfigResource(kind, topic) for topic in await admin.list_topics()]
    cluster = await admin.describe_cluster()
    return [ConfigResource(kind, str(node.node_id)) for node in cluster.nodes]


def _altered(
    resource: ConfigResource,
    change: AlterConfigOp,
    before: ConfigEntry | None,
    after: ConfigEntry | None,
) -> tuple[Any, ...]:
    """Return the setting with its old and its new value. The new value of a deleted setting is the
    value that then applies. It is None if the broker has not applied the change yet."""
    now = change.value
    if change.op == "delete" and after is not None:
        is_deleted = after.source not in SHOWN_BY_DEFAULT[resource.type]
        now = after.value if is_deleted else None
    name = resource.name or EVERY
    return name, change.name, None if before is None else before.value, now


def _is_broker(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= INT32_MAX


async def _describe(
    admin: Admin, resources: list[ConfigResource], defaults_too: bool
) -> list[tuple[Any, ...]]:
    described = await admin.describe_configs(resources) if resources else {}
    return [
        (resource.name or EVERY, entry.name, entry.value, entry.source.name, entry.is_read_only)
        for resource, entries in described.items()
        for _, entry in sorted(entries.items())
        if defaults_too or entry.source in SHOWN_BY_DEFAULT[resource.type]
    ]


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def parse_added(text: str | None) -> dict[str, str]:
    """Return `a=1,b=[x,y]` as a dictionary. Raises click.UsageError for another form."""
    text = text or ""
    pairs = _PAIR.findall(text)
    if ",".join(pairs) != text:
        raise click.UsageError(f"--add-config {text!r} is not name=value,name=[value,value]")
    added = dict(map(split_config, pairs))
    return {name: value.removeprefix("[").removesuffix("]") for name, value in added.items()}
