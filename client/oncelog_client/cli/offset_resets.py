"""`oncelog groups --reset-offsets`: where each strategy of kafka-consumer-groups leads to."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.output import Column, show
from oncelog_client.cli.reset import in_scope, parse_datetime, parse_duration, parse_scope
from oncelog_client.clock import wall_ms
from oncelog_client.values import OffsetAndMetadata, TopicPartition

# The flags, of which a reset needs exactly one.
STRATEGIES: Final = (
    *("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime"),
    *("by_duration", "from_file"),
)
RESET_COLUMNS: Final = (
    Column("Group", "id"),
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("New-offset", "offset"),
)
INACTIVE: Final = {"Empty", "Dead"}

Offsets = dict[TopicPartition, int]


async def reset_offsets(admin: Admin, flags: dict[str, Any]) -> None:
    """Show the new offsets of each group, and commit them with `execute`.

    Raises click.ClickException for a group that has members: they would go on where they are.
    """
    rows: list[tuple[Any, ...]] = []
    for group, described in (await admin.describe_groups(flags["named"])).items():
        if described.state not in INACTIVE:
            raise click.ClickException(
                f"group {group} is {described.state}: offsets are reset while it has no members"
            )
        offsets = await _new_offsets(admin, group, flags)
        if flags["execute"] and offsets:
            await admin.alter_group_offsets(
                group, {one: OffsetAndMetadata(offset) for one, offset in offsets.items()}
            )
        rows += [(group, *one, offset) for one, offset in sorted(offsets.items())]
    if flags["export"]:
        for _, topic, partition, offset in rows:
            click.echo(f"{topic},{partition},{offset}")
        return
    show(RESET_COLUMNS, rows, output=flags["output"])


async def _new_offsets(admin: Admin, group: str, flags: dict[str, Any]) -> Offsets:
    committed = {
        one: offset.offset for one, offset in (await admin.list_group_offsets(group)).items()
    }
    if flags["from_file"] is not None:
        wanted = read_offsets(flags["from_file"])
    else:
        partitions = await _partitions(admin, committed, flags["topic"])
        wanted = await _by_strategy(admin, partitions, committed, flags)
    first = await admin.list_offsets(dict.fromkeys(wanted, "earliest"))
    last = await admin.list_offsets(dict.fromkeys(wanted, "latest"))
    return {
        one: min(max(offset, first[one].offset), last[one].offset) for one, offset in wanted.items()
    }


async def _partitions(
    admin: Admin, committed: Mapping[TopicPartition, int], topics: tuple[str, ...]
) -> list[TopicPartition]:
    """All partitions of the topics named, or those the group has offsets of."""
    if not topics:
        return sorted(committed)
    scope = parse_scope(topics)
    described = await admin.describe_topics(scope)
    found = [
        TopicPartition(info.topic, info.partition)
        for topic in described.values()
        for info in topic.partitions
    ]
    return [one for one in found if in_scope(scope, one)]


async def _by_strategy(
    admin: Admin,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    flags: dict[str, Any],
) -> Offsets:
    """The offsets asked for, before they are kept within the log."""
    if flags["to_offset"] is not None:
        return dict.fromkeys(partitions, flags["to_offset"])
    if flags["shift_by"] is not None:
        missing = [str(one) for one in partitions if one not in committed]
        if missing:
            raise click.ClickException(f"no offset to shift: {', '.join(missing)}")
        return {one: committed[one] + flags["shift_by"] for one in partitions}
    latest = await _listed(admin, partitions, "latest")
    if flags["to_latest"]:
        return latest
    if flags["to_earliest"]:
        return await _listed(admin, partitions, "earliest")
    if flags["to_current"]:
        return latest | {one: committed[one] for one in partitions if one in committed}
    if flags["to_datetime"] is not None:
        timestamp_ms = parse_datetime(flags["to_datetime"])
    else:
        timestamp_ms = wall_ms() - parse_duration(flags["by_duration"])
    # A partition without a record at or after that time is at its end.
    found = await admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    return latest | {one: answer.offset for one, answer in found.items()}


async def _listed(admin: Admin, partitions: list[TopicPartition], end: Any) -> Offsets:
    found = await admin.list_offsets(dict.fromkeys(partitions, end))
    return {one: answer.offset for one, answer in found.items()}


def read_offsets(path: Path) -> Offsets:
    """Lines `topic,partition,offset`; raises click.UsageError for one that is not."""
    offsets: Offsets = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            try:
                topic, partition, offset = row
                offsets[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                raise click.UsageError(f"{','.join(row)!r} is not topic,partition,offset") from None
    return offsets
