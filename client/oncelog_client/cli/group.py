"""`oncelog group VERB GROUP`, a command for each verb. `oncelog groups` does the same with Kafka's
flags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.groups import VERBS
from oncelog_client.cli.names import NAME
from oncelog_client.cli.offset_ranges import NOTATION, Position, parse_position, resolve_and_warn
from oncelog_client.cli.options import connection_options, exactly_one, output_option
from oncelog_client.cli.output import Column, for_people, note, show
from oncelog_client.cli.reset import in_scope, parse_scope
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import OffsetAndMetadata, TopicPartition

# In these states no member would overwrite the new offsets.
INACTIVE: Final = frozenset({"Empty", "Dead"})
SEEK_COLUMNS: Final = (
    Column("Group", "id", rank=2),
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Old offset", "offset"),
    Column("New offset", "offset"),
    Column("Distance", "count", rank=1),
)

groups_argument = click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=NAME)


@click.group(
    cls=ToolGroup,
    examples=["group list", "group describe billing", "group seek billing --to @-1h"],
    elsewhere={
        **dict.fromkeys(("reset", "move", "reset-offsets"), "group seek GROUP --to start"),
        **dict.fromkeys(("lag", "offsets", "show"), "group describe GROUP"),
    },
)
@connection_options
@output_option
def group(**_: object) -> None:
    """Show consumer groups and their lag, move their offsets, delete them."""


@group.command("list", examples=["group list", "group list --output json"])
@connection_options
@output_option
def list_(*, output: str, **_: object) -> None:
    """Print the groups and their states."""
    ask(lambda admin: VERBS["list"](admin, {"output": output}))


@group.command(examples=["group describe billing", "group describe billing --members"])
@connection_options
@groups_argument
@click.option("--members", is_flag=True, help="The members and their partitions.")
@click.option("--state", is_flag=True, help="The state and the coordinator.")
@output_option
def describe(
    *, groups: tuple[str, ...], members: bool, state: bool, output: str, **_: object
) -> None:
    """Show the offsets and the lag of groups.

    Lag counts the records that a reader of committed records can get now; Held-back counts those
    that follow when open transactions are committed. Neither counts markers and aborted records, so
    their sum may be less than Log-end-offset minus Current-offset.
    """
    if members and state:
        raise click.UsageError("only one of --members, --state")
    flags = {"named": groups, "members": members, "state": state, "output": output}
    ask(lambda admin: VERBS["describe"](admin, flags))


@group.command(examples=["group delete billing", "group delete billing reports"])
@connection_options
@groups_argument
@output_option
def delete(*, groups: tuple[str, ...], output: str, **_: object) -> None:
    """Delete groups without members, with their offsets. This cannot be undone."""
    ask(lambda admin: VERBS["delete"](admin, {"named": groups, "output": output}))


@group.command(
    examples=[
        "group seek billing --to start",
        "group seek billing --to @2026-11-22T06:00 --topic orders:0,1 --execute",
        "group seek billing --to-group reports --execute",
    ]
)
@connection_options
@click.argument("name", metavar="GROUP", type=NAME)
@click.option("--to", metavar="POSITION", help=f"The new position: {NOTATION}.")
@click.option(
    "--to-group", type=NAME, metavar="GROUP", help="The committed offsets of another group."
)
@click.option(
    "--topic",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="Only this topic or these partitions. The group may have no offsets there yet.",
)
@click.option("--execute", is_flag=True, help="Commit the new offsets. Else nothing is changed.")
@output_option
def seek(
    *,
    name: str,
    to: str | None,
    to_group: str | None,
    topic: tuple[str, ...],
    execute: bool,
    output: str,
    **_: object,
) -> None:
    """Move the offsets of a group without members. Without --execute, only show the new offsets."""
    exactly_one(to=to, to_group=to_group)
    position = None if to is None else parse_position(to, wall_ms())
    scope = parse_scope(topic)

    async def call(admin: Admin) -> list[tuple[Any, ...]]:
        state = (await admin.describe_groups([name]))[name].state
        if state not in INACTIVE:
            raise Failed(
                f"group {name} is {state}: stop its members first, because they would ignore the"
                " new offsets"
            )
        old = await _committed(admin, name)
        new = (
            await _of_group(admin, to_group, scope)
            if to_group is not None
            else await _at(admin, name, old, scope, position)
        )
        if execute and new:
            commits = {place: OffsetAndMetadata(offset) for place, offset in new.items()}
            await admin.alter_group_offsets(name, commits)
        return [_row(name, place, old.get(place), new[place]) for place in sorted(new)]

    rows = ask(call)
    show(SEEK_COLUMNS, rows, output=output, empty="no offsets")
    if not execute and rows and for_people(output):
        note("nothing was changed: this is what --execute would commit")


def _row(name: str, place: TopicPartition, old: int | None, new: int) -> tuple[Any, ...]:
    return (name, *place, old, new, None if old is None else new - old)


async def _committed(admin: Admin, group_id: str) -> dict[TopicPartition, int]:
    found = await admin.list_group_offsets(group_id)
    return {place: committed.offset for place, committed in found.items()}


async def _of_group(
    admin: Admin, other: str, scope: dict[str, list[int]]
) -> dict[TopicPartition, int]:
    """Return the offsets of another group in `scope` (the values of --topic). Raises Failed if that
    group has no offsets in the scope."""
    found = {
        place: offset
        for place, offset in (await _committed(admin, other)).items()
        if in_scope(scope, place)
    }
    if not found:
        raise Failed(f"group {other} has no offsets" + (" of that topic" if scope else ""))
    return found


async def _at(
    admin: Admin,
    name: str,
    committed: dict[TopicPartition, int],
    scope: dict[str, list[int]],
    position: Position | None,
) -> dict[TopicPartition, int]:
    """Return the offset of the position in each partition of `scope` (the values of --topic).
    Without a scope, use the partitions with committed offsets. Raises Failed for an unknown
    partition, and if there is neither a scope nor a committed offset."""
    assert position is not None
    if not scope:
        if not committed:
            raise Failed(f"group {name} has no offsets; name its topics with --topic")
        return await _resolved(admin, committed, position)
    described = await admin.describe_topics(scope)
    places = {
        TopicPartition(info.topic, info.partition)
        for topic in described.values()
        for info in topic.partitions
    }
    for topic, numbers in scope.items():
        for number in numbers:
            if TopicPartition(topic, number) not in places:
                raise Failed(f"there is no {topic}-{number}")
    chosen = [place for place in sorted(places) if in_scope(scope, place)]
    return await _resolved(admin, chosen, position)


async def _resolved(
    admin: Admin, places: Iterable[TopicPartition], position: Position
) -> dict[TopicPartition, int]:
    """Return the offsets of a position. Print a warning for each offset that was outside its log
    and is replaced by the start or end of the log."""
    moved, warnings = await resolve_and_warn(admin.list_offsets, places, position)
    for warning in warnings:
        note(f"Warning: {warning}")
    return moved
