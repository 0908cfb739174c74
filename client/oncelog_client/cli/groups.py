"""`oncelog groups`: the verbs and flags of kafka-consumer-groups."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Final

import click

from oncelog_client.admin import Admin, GroupDescription
from oncelog_client.admin.row_retries import change_each
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed, Missing
from oncelog_client.cli.names import FILE, INT64_MAX, NAME, OFFSET
from oncelog_client.cli.offset_resets import STRATEGIES, reset_offsets
from oncelog_client.cli.options import (
    connection_options,
    exactly_one,
    output_option,
)
from oncelog_client.cli.output import Column, show
from oncelog_client.cli.reset import in_scope, parse_scope
from oncelog_client.values import TopicPartition

DEAD: Final = "Dead"
# The protocol types of consumers, and of groups that never had a member.
CONSUMERS: Final = frozenset({"consumer", ""})
GROUP_COLUMN: Final = Column("Group", "id")
LIST_COLUMNS: Final = (
    GROUP_COLUMN,
    Column("State"),
    Column("Type", rank=2),
    Column("Protocol type", rank=1),
)
OFFSET_COLUMNS: Final = (
    GROUP_COLUMN,
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Current-offset", "offset"),
    Column("Log-end-offset", "offset", rank=1),
    Column("Lag", "count"),
    Column("Held-back", "count"),
    Column("Consumer-id", "id", rank=4),
    Column("Host", "id", rank=3),
    Column("Client-id", "id", rank=2),
)
MEMBER_COLUMNS: Final = (
    GROUP_COLUMN,
    Column("Consumer-id", "id"),
    Column("Group-instance-id", "id", rank=3),
    Column("Host", "id", rank=2),
    Column("Client-id", "id", rank=1),
    Column("Partitions", "count"),
    Column("Assignment", "partitions", rank=4),
)
STATE_COLUMNS: Final = (
    GROUP_COLUMN,
    Column("Coordinator", "id", rank=2),
    Column("Assignment-strategy", rank=1),
    Column("State"),
    Column("Members", "count"),
)
DELETED_COLUMNS: Final = (GROUP_COLUMN, Column("Result"))
DELETED_OFFSET_COLUMNS: Final = (
    GROUP_COLUMN,
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Result"),
)


@click.command(
    cls=Tool,
    name_option="--group",
    examples=[
        "groups --list",
        "groups --describe --group billing",
        "groups --reset-offsets --group billing --topic orders --to-earliest --execute",
    ],
)
@connection_options
@output_option
@click.option("--list", "list_", is_flag=True, help="Print all groups with their states.")
@click.option("--describe", is_flag=True, help="Print offsets and lag, members or state.")
@click.option("--delete", is_flag=True, help="Delete groups without members.")
@click.option("--reset-offsets", is_flag=True, help="Print new offsets; --execute commits them.")
@click.option("--delete-offsets", is_flag=True, help="Delete the offsets of --topic.")
@click.option("--group", "named", multiple=True, type=NAME, metavar="NAME", help="The group.")
@click.option("--all-groups", is_flag=True, help="Every group of consumers.")
@click.option(
    "--topic", multiple=True, type=NAME, metavar="TOPIC[:0,1]", help="A topic, or some partitions."
)
@click.option("--all-topics", is_flag=True, help="Every topic the group has offsets of.")
@click.option("--offsets", is_flag=True, help="With --describe: offsets and lag.  [default]")
@click.option("--members", is_flag=True, help="With --describe: the members.")
@click.option("--state", is_flag=True, help="With --describe: the state.")
@click.option("--to-earliest", is_flag=True, help="Reset to the first offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the end.")
@click.option("--to-current", is_flag=True, help="Reset to the committed offset.")
@click.option("--to-offset", type=OFFSET, metavar="OFFSET", help="Reset to this offset.")
@click.option(
    "--shift-by",
    type=click.IntRange(-INT64_MAX, INT64_MAX),
    metavar="N",
    help="Reset by N offsets; a negative N goes back.",
)
@click.option("--to-datetime", metavar="TIME", help="Reset to a time: 2026-11-22T06:00:00.000")
@click.option(
    "--by-duration", metavar="DURATION", help="Reset to the time this long ago: P1DT2H30M5S"
)
@click.option(
    "--from-file",
    type=FILE,
    metavar="FILE",
    help="Reset to the offsets in lines [group,]topic,partition,offset.",
)
@click.option("--execute", is_flag=True, help="Commit the reset.")
@click.option("--dry-run", is_flag=True, help="Change nothing.  [default]")
@click.option("--export", is_flag=True, help="Print a reset as lines for --from-file.")
@click.option("--kafka-errors", is_flag=True, hidden=True)  # for kafka-consumer-groups.sh
def groups(
    *,
    list_: bool,
    describe: bool,
    delete: bool,
    reset_offsets: bool,
    delete_offsets: bool,
    **flags: Any,
) -> None:
    """List and describe consumer groups, reset their offsets.

    Lag counts the records that a reader of committed records can get now. Held-back counts the
    records above the last stable offset, which open transactions hold back. Neither counts markers
    and aborted records.
    """
    verb = exactly_one(
        list=list_,
        describe=describe,
        delete=delete,
        reset_offsets=reset_offsets,
        delete_offsets=delete_offsets,
    )
    _check(verb, flags)

    async def call(admin: Admin) -> None:
        if flags["all_groups"]:
            # ListGroupsOptions.forConsumerGroups: no groups of Kafka Connect, for example.
            flags["named"] = [
                group.group_id
                for group in await admin.list_groups()
                if group.protocol_type in CONSUMERS
            ]
        await VERBS[verb](admin, flags)

    ask(call)


def _check(verb: str, flags: dict[str, Any]) -> None:
    """Raise click.UsageError if a needed flag is missing or flags exclude each other."""
    if verb == "list":
        return
    exactly_one(group=flags["named"], all_groups=flags["all_groups"])
    if verb == "reset_offsets":
        # An offset of 0 counts as given, although 0 is false.
        given = {name: flags[name] is not None and flags[name] is not False for name in STRATEGIES}
        exactly_one(**given)
        if flags["from_file"] is None:
            exactly_one(topic=flags["topic"], all_topics=flags["all_topics"])
        if flags["execute"] and flags["dry_run"]:
            raise click.UsageError("--execute excludes --dry-run")
    if verb == "delete_offsets" and not flags["topic"]:
        raise click.UsageError("--delete-offsets needs --topic")
    if verb == "describe" and sum((flags["offsets"], flags["members"], flags["state"])) > 1:
        raise click.UsageError("only one of --offsets, --members, --state")


async def _list(admin: Admin, flags: dict[str, Any]) -> None:
    listed = await admin.list_groups()
    rows = [
        (listing.group_id, listing.state, listing.type, listing.protocol_type) for listing in listed
    ]
    show(LIST_COLUMNS, rows, output=flags["output"], empty="no groups")


async def _describe(admin: Admin, flags: dict[str, Any]) -> None:
    described = await _existing(admin, flags["named"])
    if flags["state"]:
        rows = list(map(_state_row, described))
        show(STATE_COLUMNS, rows, output=flags["output"], empty="no groups")
    elif flags["members"]:
        rows = [row for group in described for row in _members(group)]
        show(MEMBER_COLUMNS, rows, output=flags["output"], empty="no members")
    else:
        found = await asyncio.gather(*(_offsets(admin, group) for group in described))
        rows = [row for some in found for row in some]
        show(OFFSET_COLUMNS, rows, output=flags["output"], empty="no offsets")


async def _existing(admin: Admin, names: Iterable[str]) -> list[GroupDescription]:
    """Return the descriptions of groups. Raises click.ClickException for a group that does not
    exist and has no offsets."""
    described = await admin.describe_groups(names)
    for group in described.values():
        if group.state == DEAD and not await admin.list_group_offsets(group.group_id):
            raise Missing(f"there is no group {group.group_id}")
    return list(described.values())


def _state_row(group: GroupDescription) -> tuple[Any, ...]:
    coordinator = f"{group.coordinator.host}:{group.coordinator.port}"
    strategy = group.partition_assignor or None
    return group.group_id, coordinator, strategy, group.state, len(group.members)


def _members(group: GroupDescription) -> list[tuple[Any, ...]]:
    return [
        (
            *(group.group_id, member.member_id, member.group_instance_id, member.host),
            *(member.client_id, len(member.assignment), list(map(str, member.assignment))),
        )
        for member in group.members
    ]


async def _offsets(admin: Admin, group: GroupDescription) -> list[tuple[Any, ...]]:
    """Return a row for each partition with a committed offset or a member that reads it."""
    owners = {place: member for member in group.members for place in member.assignment}
    lags = await admin.describe_group_lag(group.group_id)
    uncommitted = owners.keys() - lags.keys()
    led = await _led(admin, uncommitted)
    ends = await admin.list_offsets(dict.fromkeys(led, "latest"))
    rows: list[tuple[Any, ...]] = []
    for place in sorted({*lags, *owners}):
        lag, owner = lags.get(place), owners.get(place)
        figures: tuple[int | None, ...]
        if lag is not None:
            figures = lag.committed_offset, lag.high_watermark, lag.lag, lag.held_back
        else:
            figures = None, ends[place].offset if place in ends else None, None, None
        reader = (owner.member_id, owner.host, owner.client_id) if owner else (None, None, None)
        rows.append((group.group_id, place.topic, place.partition, *figures, *reader))
    return rows


async def _led(admin: Admin, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """Return the partitions that have a leader now."""
    if not partitions:
        return set()
    described = await admin.describe_topics({partition.topic for partition in partitions})
    leaders = {
        TopicPartition(info.topic, info.partition): info.leader
        for topic in described.values()
        for info in topic.partitions
    }
    return {partition for partition in partitions if leaders.get(partition) is not None}


async def _delete(admin: Admin, flags: dict[str, Any]) -> None:
    await admin.delete_groups(flags["named"])
    rows = [(name, "deleted") for name in flags["named"]]
    show(DELETED_COLUMNS, rows, output=flags["output"], empty="no groups")


async def _delete_offsets(admin: Admin, flags: dict[str, Any]) -> None:
    scope = parse_scope(flags["topic"])
    chosen: dict[str, list[TopicPartition]] = {}
    for group in await _existing(admin, flags["named"]):
        name = group.group_id
        committed = await admin.list_group_offsets(name)
        chosen[name] = sorted(partition for partition in committed if in_scope(scope, partition))
        if not chosen[name] and not flags["all_groups"]:
            raise Failed(f"group {name} has no offsets of {', '.join(flags['topic'])}")

    async def delete(name: str) -> None:
        await admin.delete_group_offsets(name, chosen[name])

    await change_each([name for name, partitions in chosen.items() if partitions], delete)
    rows = [
        (name, *partition, "deleted")
        for name, partitions in chosen.items()
        for partition in partitions
    ]
    show(DELETED_OFFSET_COLUMNS, rows, output=flags["output"], empty="no offsets")


VERBS: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": reset_offsets,
    "delete_offsets": _delete_offsets,
}
