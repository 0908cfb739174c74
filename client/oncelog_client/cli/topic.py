"""`oncelog topic VERB TOPIC...`: the everyday verbs, with topics as arguments. `oncelog topics` has
the flags of kafka-topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.cluster_state import sizes_of_partitions
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.internal_topics import refuse_internal
from oncelog_client.cli.names import NAME
from oncelog_client.cli.new_topics import create_missing
from oncelog_client.cli.offset_ranges import NOTATION, Position, parse_position, resolve
from oncelog_client.cli.options import (
    connection_options,
    former_name,
    output_option,
    split_config,
)
from oncelog_client.cli.output import Column, for_people, note, show
from oncelog_client.cli.partitions import parse_partitions
from oncelog_client.cli.trimming import check_trim
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import PartitionInfo, TopicPartition

F = TypeVar("F", bound=Callable[..., Any])

TOPIC: Final = Column("Topic", "id")
PARTITION: Final = Column("Partition", "count")
RESULT_COLUMNS: Final = (TOPIC, Column("Result"))
DESCRIBE_COLUMNS: Final = (
    TOPIC,
    PARTITION,
    Column("Leader", "count", rank=1),
    Column("Replicas", rank=4),
    Column("Isr", rank=5),
    Column("Start", "offset", rank=2),
    Column("Stable", "offset", rank=3),
    Column("End", "offset"),
    Column("Size", "size", rank=1),
)
OFFSET_COLUMNS: Final = (
    TOPIC,
    PARTITION,
    Column("Start", "offset"),
    Column("Stable", "offset"),
    Column("End", "offset"),
)
AT_COLUMNS: Final = (TOPIC, PARTITION, Column("Offset", "offset"))
TRIM_COLUMNS: Final = (
    TOPIC,
    PARTITION,
    Column("Old start", "offset"),
    Column("New start", "offset"),
    Column("Deleted", "count"),
)

names_argument = click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=NAME)
# The former name of `--only-partitions`. The option was renamed, because in `topic create`
# `--partitions` is a number of partitions.
_former_name: Final = former_name("--partitions", "partitions")


def partitions_option(command: F) -> F:
    """Add `--only-partitions 0,2-4`. The parameter is called `partitions`."""
    return click.option(
        *("-p", "--only-partitions", "partitions"),
        metavar="0,2-4",
        help="Only these partitions.",
    )(_former_name(command))


@click.group(
    cls=ToolGroup,
    examples=["topic create orders -p 6", "topic describe orders", "topic offsets orders"],
    elsewhere={
        **dict.fromkeys(("config", "configs", "settings"), "config --describe --topic NAME"),
        **dict.fromkeys(("alter", "set"), "config --alter --topic NAME --add-config NAME=VALUE"),
    },
)
@connection_options
@output_option
def topic(**_: object) -> None:
    """Create, show and delete topics; see their offsets; delete old records."""


@topic.command("list", examples=["topic list", "topic list --internal --output json"])
@connection_options
@click.option("--internal", is_flag=True, help="Print internal topics too.")
@output_option
def list_(*, internal: bool, output: str, **_: object) -> None:
    """Print the names of the topics."""
    names = sorted(ask(lambda admin: admin.list_topics(list_internal=internal)))
    show([TOPIC], [[name] for name in names], output=output, empty="no topics")


@topic.command(
    examples=[
        "topic create orders",
        "topic create orders payments -p 6 -c retention.ms=86400000",
        "topic create customers -c cleanup.policy=compact",
        "topic create orders --if-not-exists",
    ]
)
@connection_options
@names_argument
@click.option("-p", "--partitions", type=click.IntRange(1, 1 << 20), help="Number of partitions.")
@click.option("-r", "--replicas", type=click.IntRange(1, 1 << 14), help="Number of replicas.")
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting.")
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that exists as it is.")
@output_option
def create(
    *,
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    output: str,
    **_: object,
) -> None:
    """Create topics. The broker's defaults apply to all other values."""
    from oncelog_client.admin import NewTopic

    settings = dict(map(split_config, configs))

    async def call(admin: Admin) -> list[tuple[str, str]]:
        new = [
            NewTopic(name, partitions or -1, replicas or -1, settings)
            for name in dict.fromkeys(topics)
        ]
        existing: set[str] = set()
        if if_not_exists:
            existing = await create_missing(admin, new)
        else:
            await admin.create_topics(new)
        return [(name, "existed" if name in existing else "created") for name in topics]

    show(RESULT_COLUMNS, ask(call), output=output)


@topic.command(examples=["topic describe orders", "topic describe orders --output wide"])
@connection_options
@names_argument
@partitions_option
@output_option
def describe(*, topics: tuple[str, ...], partitions: str | None, output: str, **_: object) -> None:
    """Show the partitions of topics: leader, replicas, offsets, size on disk.

    Stable is the last stable offset: a reader of committed records waits there for an open
    transaction.
    """
    wanted = parse_partitions(partitions)
    show(DESCRIBE_COLUMNS, ask(lambda admin: _described(admin, topics, wanted)), output=output)


async def _described(
    admin: Admin, topics: tuple[str, ...], wanted: frozenset[int] | None
) -> list[tuple[Any, ...]]:
    infos = await _partitions(admin, topics, wanted)
    brokers = {broker for info in infos.values() for broker in info.replicas}
    ends, sizes = await asyncio.gather(
        _ends(admin, [place for place, info in infos.items() if info.leader is not None]),
        sizes_of_partitions(admin, brokers),
    )
    return [
        (
            *(place.topic, place.partition, info.leader, list(info.replicas)),
            list(info.in_sync_replicas),
            *ends.get(place, (None, None, None)),
            sizes.get(place),
        )
        for place, info in infos.items()
    ]


@topic.command(examples=["topic delete orders", "topic delete orders payments --if-exists"])
@connection_options
@names_argument
@click.option("--if-exists", is_flag=True, help="Skip topics that do not exist.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@click.option("--force", is_flag=True, help="Delete internal topics too.")
@output_option
def delete(
    *,
    topics: tuple[str, ...],
    if_exists: bool,
    dry_run: bool,
    force: bool,
    output: str,
    **_: object,
) -> None:
    """Delete topics with all their records. This cannot be undone."""

    async def call(admin: Admin) -> list[tuple[str, str]]:
        existing = await admin.list_topics(list_internal=True)
        missing = [name for name in topics if name not in existing]
        if missing and not if_exists:
            raise Failed(f"there is no topic {', '.join(missing)}; nothing was deleted")
        found = [name for name in dict.fromkeys(topics) if name in existing]
        if not force:
            refuse_internal(existing[name] for name in found)
        if found and not dry_run:
            await admin.delete_topics(found)
        return [(name, "would be deleted" if dry_run else "deleted") for name in found]

    show(RESULT_COLUMNS, ask(call), output=output, empty="no topic was deleted")
    if dry_run and for_people(output):
        note("nothing was changed: this is what would be deleted without --dry-run")


@topic.command(
    examples=[
        "topic offsets orders",
        "topic offsets orders -p 0-2 --at @2026-11-22T06:00",
        "topic offsets orders --at @-1h",
    ]
)
@connection_options
@names_argument
@partitions_option
@click.option("--at", metavar="POSITION", help=f"Show the offset at: {NOTATION}.")
@output_option
def offsets(
    *, topics: tuple[str, ...], partitions: str | None, at: str | None, output: str, **_: object
) -> None:
    """Show where partitions start and end, and the last stable offset.

    Records between Stable and End belong to open transactions, or follow the first record of one.
    """
    wanted = parse_partitions(partitions)
    position = None if at is None else parse_position(at, wall_ms())
    rows = ask(lambda admin: _offsets(admin, topics, wanted, position))
    show(OFFSET_COLUMNS if position is None else AT_COLUMNS, rows, output=output)


async def _offsets(
    admin: Admin,
    topics: tuple[str, ...],
    wanted: frozenset[int] | None,
    position: Position | None,
) -> list[tuple[Any, ...]]:
    places = list(await _partitions(admin, topics, wanted))
    if position is None:
        ends = await _ends(admin, places)
        return [(*place, *ends[place]) for place in places]
    found = await resolve(admin.list_offsets, places, position)
    return [(*place, found[place]) for place in places]


@topic.command(
    examples=[
        "topic trim orders --before @-7d",
        "topic trim orders -p 0 --before 1500 --execute",
    ]
)
@connection_options
@click.argument("name", metavar="TOPIC", type=NAME)
@partitions_option
@click.option(
    "--before", required=True, metavar="POSITION", help=f"Delete records before: {NOTATION}."
)
@click.option("--execute", is_flag=True, help="Delete. Without --execute nothing is changed.")
@output_option
def trim(
    *,
    name: str,
    partitions: str | None,
    before: str,
    execute: bool,
    output: str,
    **_: object,
) -> None:
    """Delete the records before a position. Without --execute it only shows what would be
    deleted."""
    wanted = parse_partitions(partitions)
    position = parse_position(before, wall_ms())

    async def call(admin: Admin) -> list[tuple[Any, ...]]:
        places = list(await _partitions(admin, (name,), wanted))
        starts = await admin.list_offsets(dict.fromkeys(places, "earliest"))
        await check_trim(admin, name, places, position)
        to = await resolve(admin.list_offsets, places, position)
        if execute:
            to |= await admin.delete_records(to)
        return [
            (*place, starts[place].offset, to[place], max(to[place] - starts[place].offset, 0))
            for place in places
        ]

    show(TRIM_COLUMNS, ask(call), output=output)
    if not execute and for_people(output):
        note("nothing was changed: this is what --execute would delete")


async def _partitions(
    admin: Admin, topics: tuple[str, ...], wanted: frozenset[int] | None
) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions of the topics. If `wanted` is not None, return only the partitions with
    these numbers. Raises Failed for a partition that does not exist."""
    described = await admin.describe_topics(dict.fromkeys(topics))
    found: dict[TopicPartition, PartitionInfo] = {}
    for name, description in described.items():
        infos = {info.partition: info for info in description.partitions}
        missing = sorted((wanted or frozenset()) - infos.keys())
        if missing:
            raise Failed(
                f"{name} has no partition {missing[0]}: it has {len(infos)}, counted from 0"
            )
        found |= {
            TopicPartition(name, number): infos[number]
            for number in sorted(infos if wanted is None else wanted)
        }
    return found


async def _ends(
    admin: Admin, places: list[TopicPartition]
) -> dict[TopicPartition, tuple[int, int, int]]:
    """Return start, last stable offset and high watermark of each partition."""
    if not places:
        return {}
    starts, stable, ends = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(places, "earliest")),
        admin.list_offsets(dict.fromkeys(places, "latest"), isolation_level="read_committed"),
        admin.list_offsets(dict.fromkeys(places, "latest")),
    )
    return {
        place: (starts[place].offset, stable[place].offset, ends[place].offset) for place in places
    }
