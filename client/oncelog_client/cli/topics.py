"""`oncelog topics`: the verbs and flags of kafka-topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Missing
from oncelog_client.cli.names import INT16_MAX, INT32_MAX, NAME
from oncelog_client.cli.new_topics import create_missing
from oncelog_client.cli.options import (
    connection_options,
    exactly_one,
    output_option,
    split_config,
)
from oncelog_client.cli.output import Column, show
from oncelog_client.cli.partition_filters import FILTERS, Replication
from oncelog_client.cli.topic_lookup import TopicNames
from oncelog_client.cli.topic_settings import topic_settings
from oncelog_client.values import PartitionInfo

# A verb imports from `oncelog_client.admin` inside of its function, so that `--list` is quick.
if TYPE_CHECKING:
    from oncelog_client.admin import Admin, ConfigEntry, TopicDescription

TOPIC_COLUMN: Final = Column("Topic", "id")
CHANGED_COLUMNS: Final = (TOPIC_COLUMN, Column("Result"))
PARTITION_COLUMNS: Final = (
    TOPIC_COLUMN,
    Column("Partition", "count"),
    Column("Leader", "count"),
    Column("Leader epoch", "count", rank=4),
    Column("Replicas", rank=1),
    Column("Isr", rank=2),
    Column("Configs", rank=3),
)


@click.command(
    cls=Tool,
    name_option="--topic",
    examples=[
        "topics --list",
        "topics --create --topic orders --partitions 6 --config retention.ms=86400000",
        "topics --describe --topic 'orders|bills-.*'",
    ],
)
@connection_options
@output_option
@click.option("--list", "list_", is_flag=True, help="Print the names of the topics.")
@click.option("--create", is_flag=True, help="Create topics.")
@click.option("--describe", is_flag=True, help="Print partitions, leaders and overridden settings.")
@click.option("--alter", is_flag=True, help="Raise the number of partitions.")
@click.option("--delete", is_flag=True, help="Delete topics with all their records.")
@click.option(
    *("--topic", "topic"),
    multiple=True,
    type=NAME,
    metavar="NAME",
    help="A name; for all verbs but --create a regular expression.",
)
@click.option(
    "--partitions", type=click.IntRange(1, INT32_MAX), metavar="N", help="Number of partitions."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, INT16_MAX),
    metavar="N",
    help="Number of replicas of each partition.",
)
@click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting of a new topic."
)
@click.option("--if-not-exists", is_flag=True, help="With --create: leave existing topics alone.")
@click.option("--if-exists", is_flag=True, help="Do not fail if the topic does not exist.")
@click.option("--force", is_flag=True, help="With --delete: internal topics too.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option(
    "--under-replicated-partitions",
    is_flag=True,
    help="With --describe: only partitions with fewer in-sync replicas than replicas.",
)
@click.option(
    "--under-min-isr-partitions",
    is_flag=True,
    help="With --describe: only partitions with fewer than min.insync.replicas.",
)
@click.option(
    "--at-min-isr-partitions",
    is_flag=True,
    help="With --describe: only partitions with exactly min.insync.replicas.",
)
@click.option(
    "--unavailable-partitions",
    is_flag=True,
    help="With --describe: only partitions without a leader.",
)
def topics(
    *,
    list_: bool,
    create: bool,
    describe: bool,
    alter: bool,
    delete: bool,
    **flags: Any,
) -> None:
    """List, create, describe, alter and delete topics."""
    verb = exactly_one(list=list_, create=create, describe=describe, alter=alter, delete=delete)
    if verb in {"create", "alter", "delete"} and not flags["topic"]:
        raise click.UsageError(f"--{verb} needs --topic")
    if verb == "alter" and flags["partitions"] is None:
        raise click.UsageError("--alter needs --partitions; for settings there is oncelog config")
    filters = [name for name in FILTERS if flags[name.replace("-", "_")]]
    if filters and verb != "describe":
        raise click.UsageError(f"--{filters[0]} needs --describe")

    ask(lambda admin: VERBS[verb](admin, filters=filters, **flags))


async def _list(admin: Admin, *, output: str, **flags: Any) -> None:
    names = await _names(admin, flags["topic"], flags["exclude_internal"])
    show([TOPIC_COLUMN], [[name] for name in names], output=output, empty="no topics")


async def _create(admin: Admin, *, topic: Sequence[str], output: str, **flags: Any) -> None:
    from oncelog_client.admin import NewTopic

    new = [
        NewTopic(
            name,
            num_partitions=flags["partitions"] or -1,
            replication_factor=flags["replication_factor"] or -1,
            configs=dict(map(split_config, flags["configs"])),
        )
        for name in topic
    ]
    existing: set[str] = set()
    if flags["if_not_exists"]:
        existing = await create_missing(admin, new)
    elif new:
        await admin.create_topics(new)
    created = [topic.name for topic in new if topic.name not in existing]
    _show_changed(created, "created", output)


async def _describe(admin: Admin, *, topic: Sequence[str], output: str, **flags: Any) -> None:
    names = await _existing(admin, topic, flags["if_exists"], flags["exclude_internal"])
    described = await admin.describe_topics(names) if names else {}
    settings = await topic_settings(admin, names)
    rows = [
        row
        for name in names
        if name in settings  # deleted meanwhile
        for row in _partition_rows(described[name], settings[name], flags["filters"])
    ]
    empty = "no such partitions" if flags["filters"] else "no topics"
    show(PARTITION_COLUMNS, rows, output=output, empty=empty)


async def _alter(admin: Admin, *, topic: Sequence[str], output: str, **flags: Any) -> None:
    names = await _existing(admin, topic, flags["if_exists"], False)
    await admin.create_partitions(dict.fromkeys(names, flags["partitions"]))
    _show_changed(names, "altered", output)


async def _delete(admin: Admin, *, topic: Sequence[str], output: str, **flags: Any) -> None:
    from oncelog_client.cli.internal_topics import refuse_internal

    names = await _existing(admin, topic, flags["if_exists"], False)
    if not flags["force"]:
        listed = await admin.list_topics(list_internal=True)
        refuse_internal(listed[name] for name in names if name in listed)
    if names:
        await admin.delete_topics(names)
    _show_changed(names, "deleted", output)


VERBS = {
    "list": _list,
    "create": _create,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
}


async def _names(admin: Admin, patterns: Iterable[str], exclude_internal: bool) -> list[str]:
    names = sorted(await admin.list_topics(list_internal=not exclude_internal))
    if not patterns:
        return names
    wanted = TopicNames("--topic", patterns)
    return [name for name in names if wanted.fullmatch(name)]


async def _existing(
    admin: Admin, patterns: Sequence[str], if_exists: bool, exclude_internal: bool
) -> list[str]:
    names = await _names(admin, patterns, exclude_internal)
    if patterns and not names and not if_exists:
        raise Missing(f"no topic matches {', '.join(patterns)}")
    return names


def _own(entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    from oncelog_client.admin import ConfigSource

    return {
        name: entry.value
        for name, entry in sorted(entries.items())
        if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def _partition_rows(
    topic: TopicDescription, settings: Mapping[str, ConfigEntry], filters: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Return the rows of the partitions that a filter shows. Without filters, return all rows."""
    own = _own(settings)
    minimum = int(settings["min.insync.replicas"].value or 1)
    return [
        (
            topic.name,
            part.partition,
            part.leader,
            part.leader_epoch,
            list(part.replicas),
            list(part.in_sync_replicas),
            own,
        )
        for part in topic.partitions
        if not filters or any(FILTERS[name](_replication(part, minimum)) for name in filters)
    ]


def _replication(part: PartitionInfo, minimum: int) -> Replication:
    return Replication(part.leader, len(part.in_sync_replicas), len(part.replicas), minimum)


def _show_changed(names: list[str], what: str, output: str) -> None:
    rows = [[name, what] for name in names]
    show(CHANGED_COLUMNS, rows, output=output, empty=f"no topic was {what}")
