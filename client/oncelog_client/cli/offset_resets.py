"""`oncelog groups --reset-offsets`: the strategies of kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.names import INT32_MAX, INT64_MAX
from oncelog_client.cli.output import Column, for_people, note, show
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.reset import (
    in_scope,
    kept_within,
    parse_datetime,
    parse_duration,
    parse_scope,
)
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

# A reset needs exactly one of these flags.
STRATEGIES: Final = (
    *("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime"),
    *("by_duration", "from_file"),
)
RESET_COLUMNS: Final = (
    Column("Group", "id"),
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Old-offset", "offset"),
    Column("New-offset", "offset"),
    Column("Distance", "count"),
)
INACTIVE: Final = {"Empty", "Dead"}

NewOffsets = dict[TopicPartition, int]


async def reset_offsets(admin: Admin, flags: dict[str, Any]) -> None:
    """Show the old and new offsets of each group. With `execute`, commit the new offsets.

    Raises Failed for a group with members, because they would ignore the new offsets.
    """
    rows: list[tuple[Any, ...]] = []
    for group, described in (await admin.describe_groups(flags["named"])).items():
        if described.state not in INACTIVE:
            raise Failed(
                f"group {group} is {described.state}: stop its members before its offsets are reset"
            )
        listed = await admin.list_group_offsets(group)
        old = {place: committed.offset for place, committed in listed.items()}
        new = await _new_offsets(admin, old, flags)
        if flags["execute"] and new:
            await admin.alter_group_offsets(
                group, {place: OffsetAndMetadata(offset) for place, offset in new.items()}
            )
        rows += [
            (group, *place, old.get(place), offset, offset - old[place] if place in old else None)
            for place, offset in sorted(new.items())
        ]
    if flags["export"]:
        for _, topic, partition, _, offset, _ in rows:
            click.echo(f"{topic},{partition},{offset}")
    else:
        show(RESET_COLUMNS, rows, output=flags["output"], empty="no offsets to reset")
    if rows and for_people(flags["output"]):
        done = "committed" if flags["execute"] else "nothing was changed; --execute commits this"
        note(f"{count_text(len(rows), 'offset')}: {done}")


async def _new_offsets(admin: Admin, committed: NewOffsets, flags: dict[str, Any]) -> NewOffsets:
    """Return the requested offsets. An offset outside its log is replaced by the log's start or
    end, with a warning."""
    if flags["from_file"] is not None:
        wanted = read_offsets(flags["from_file"])
    else:
        partitions = await _partitions(admin, committed, flags["topic"])
        wanted = await _by_strategy(admin, partitions, committed, flags)
    starts = await _listed(admin, list(wanted), "earliest")
    ends = await _listed(admin, list(wanted), "latest")
    moved, warnings = kept_within(wanted, starts, ends)
    for warning in warnings:
        note(f"Warning: {warning}")
    return moved


async def _partitions(
    admin: Admin, committed: Mapping[TopicPartition, int], topics: tuple[str, ...]
) -> list[TopicPartition]:
    """Return the partitions that `topics` names (`topic` or `topic:0,1`). Without topics, return
    the partitions with committed offsets. Raises Failed for a partition that does not exist."""
    if not topics:
        return sorted(committed)
    scope = parse_scope(topics)
    described = await admin.describe_topics(scope)
    found = [
        TopicPartition(info.topic, info.partition)
        for topic in described.values()
        for info in topic.partitions
    ]
    chosen = [place for place in found if in_scope(scope, place)]
    for topic, numbers in scope.items():
        for number in numbers:
            if TopicPartition(topic, number) not in chosen:
                raise Failed(f"there is no partition {topic}-{number}")
    return chosen


async def _by_strategy(
    admin: Admin,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    flags: dict[str, Any],
) -> NewOffsets:
    """Return the requested offsets, which may be outside their logs."""
    if flags["to_offset"] is not None:
        return dict.fromkeys(partitions, flags["to_offset"])
    if flags["shift_by"] is not None:
        missing = [str(partition) for partition in partitions if partition not in committed]
        if missing:
            raise Failed(f"no offset to shift: {', '.join(missing)}")
        return {partition: committed[partition] + flags["shift_by"] for partition in partitions}
    latest = await _listed(admin, partitions, "latest")
    if flags["to_latest"]:
        return latest
    if flags["to_earliest"]:
        return await _listed(admin, partitions, "earliest")
    if flags["to_current"]:
        return latest | {
            partition: committed[partition] for partition in partitions if partition in committed
        }
    if flags["to_datetime"] is not None:
        timestamp_ms = parse_datetime(flags["to_datetime"])
    else:
        timestamp_ms = wall_ms() - parse_duration(flags["by_duration"])
    # In the protocol, negative timestamps have other meanings.
    timestamp_ms = max(timestamp_ms, 0)
    # In a partition without a record at or after that time, the new offset is the end.
    found = await admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    return latest | {partition: response.offset for partition, response in found.items()}


async def _listed(admin: Admin, partitions: list[TopicPartition], end: Any) -> NewOffsets:
    found = await admin.list_offsets(dict.fromkeys(partitions, end))
    return {partition: response.offset for partition, response in found.items()}


def read_offsets(path: Path) -> NewOffsets:
    """Parse the offsets in lines `topic,partition,offset`.

    Raises click.UsageError with the number of an invalid line, and for a file that is not UTF-8.
    """
    import csv

    offsets: NewOffsets = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if row:
                    place, offset = _line(path, number, row)
                    offsets[place] = offset
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--from-file {path}: not text in UTF-8 ({error.reason})") from None
    except csv.Error as error:
        raise click.UsageError(f"--from-file {path}: {error}") from None
    return offsets


def _line(path: Path, number: int, row: list[str]) -> tuple[TopicPartition, int]:
    try:
        topic, partition, offset = row
        place, at = TopicPartition(topic, int(partition)), int(offset)
    except ValueError:
        place, at = TopicPartition("", -1), -1
    if not place.topic or not 0 <= place.partition <= INT32_MAX or not 0 <= at <= INT64_MAX:
        text = ",".join(row)[:80]
        raise click.UsageError(
            f"--from-file {path}, line {number}: {text!r} is not topic,partition,offset"
        )
    return place, at
