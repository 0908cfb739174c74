"""`oncelog groups --reset-offsets`: the strategies of kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.missing_rights import text_of
from oncelog_client.cli.output import Column, for_people, note, say, show
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.reset import (
    in_scope,
    kept_within,
    parse_datetime,
    parse_duration,
    parse_scope,
)
from oncelog_client.cli.reset_plan import NewOffsets, plan_text, read_plan
from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import OffsetAndMetadata, TopicPartition

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

# A group that is not reset -> the reason.
Failures = dict[str, str]


async def reset_offsets(admin: Admin, flags: dict[str, Any]) -> None:
    """Show the old and new offsets of each group. With `execute`, commit the new offsets. A group
    that cannot be reset does not stop the others (ConsumerGroupService.resetOffsets).

    Raises Failed at the end if a group has members, because they would ignore the new offsets, if
    it is not in the file, or if its commit fails. With `kafka_errors`, print the errors as Kafka's
    tool does instead. An error before the first commit raises Failed, KafkaError or
    click.UsageError, and nothing is committed.
    """
    single = not flags["all_groups"] and len(flags["named"]) == 1
    failures: Failures = {}
    old, new = await _planned(admin, flags, failures, single=single)
    if flags["execute"]:
        for group in list(new):
            try:
                await _commit(admin, group, new[group])
            except KafkaError as error:
                reason = text_of(error, admin.config)
                failures[group] = f"group {group}: the commit of its offsets failed: {reason}"
                del new[group]
    _show(old, new, flags, single=single)
    if failures and flags["kafka_errors"]:
        say("".join(f"\nError: {reason}\n" for reason in failures.values()))
    elif failures:
        raise Failed("; ".join(failures.values()))


async def _planned(
    admin: Admin, flags: dict[str, Any], failures: Failures, *, single: bool
) -> tuple[dict[str, NewOffsets], dict[str, NewOffsets]]:
    """Return the committed and the new offsets of each group that can be reset. The others are
    added to `failures`."""
    plan = None
    if flags["from_file"] is not None:
        plan = read_plan(flags["from_file"], flags["named"][0] if single else None)
    old: dict[str, NewOffsets] = {}
    new: dict[str, NewOffsets] = {}
    for group, described in (await admin.describe_groups(flags["named"])).items():
        if described.state not in INACTIVE:
            failures[group] = _active(group, described.state, as_kafka=flags["kafka_errors"])
        elif plan is not None and group not in plan:
            failures[group] = f"No reset plan for group {group} found."
        else:
            listed = await admin.list_group_offsets(group)
            old[group] = {place: committed.offset for place, committed in listed.items()}
            wanted = await _wanted(admin, old[group], flags) if plan is None else plan[group]
            new[group] = await _within_logs(admin, wanted)
    return old, new


def _active(group: str, state: str, *, as_kafka: bool) -> str:
    if as_kafka:
        return (
            f"Assignments can only be reset if the group '{group}' is inactive, but the current"
            f" state is {state}."
        )
    return f"group {group} is {state}: stop its members before its offsets are reset"


async def _commit(admin: Admin, group: str, new: NewOffsets) -> None:
    if new:
        commits = {place: OffsetAndMetadata(offset) for place, offset in new.items()}
        await admin.alter_group_offsets(group, commits)


def _show(
    old: dict[str, NewOffsets], new: dict[str, NewOffsets], flags: dict[str, Any], *, single: bool
) -> None:
    """Show the new offsets, as a table or as the lines of `--export`."""
    rows: list[tuple[Any, ...]] = []
    for group, offsets in new.items():
        before = old[group]
        rows += [
            (
                *(group, *place, before.get(place), offset),
                offset - before[place] if place in before else None,
            )
            for place, offset in sorted(offsets.items())
        ]
    if flags["export"]:
        click.echo(plan_text(new, single=single), nl=False)
    else:
        show(RESET_COLUMNS, rows, output=flags["output"], empty="no offsets to reset")
    if rows and for_people(flags["output"]):
        done = "committed" if flags["execute"] else "nothing was changed; --execute commits this"
        note(f"{count_text(len(rows), 'offset')}: {done}")


async def _wanted(admin: Admin, committed: NewOffsets, flags: dict[str, Any]) -> NewOffsets:
    partitions = await _partitions(admin, committed, flags["topic"])
    return await _by_strategy(admin, partitions, committed, flags)


async def _within_logs(admin: Admin, wanted: NewOffsets) -> NewOffsets:
    """Return the offsets. An offset outside its log is replaced by the log's start or end, with a
    warning."""
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
