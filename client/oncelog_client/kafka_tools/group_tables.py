"""The tables of kafka-consumer-groups.sh. A column is as wide as its widest value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from oncelog_client.admin.group_descriptions import GroupDescription, MemberDescription
from oncelog_client.values import TopicPartition

_NONE: Final = "-"
_LEAST: Final = 15


class GroupRow(NamedTuple):
    """One line about a partition of a group. `member` is None if no member owns the partition."""

    partition: TopicPartition
    leader_epoch: int | None
    offset: int | None
    end: int | None
    member: MemberDescription | None


def offsets_table(group_id: str, rows: Sequence[GroupRow], *, verbose: bool) -> str:
    """Return the table of the offsets and the lag, or an empty text if there is no row."""
    if not rows:
        return ""
    heading = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    heading += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    least = [_LEAST, _LEAST, 10, _LEAST, _LEAST, _LEAST, _LEAST, _LEAST, 0]
    cells = [_offset_cells(group_id, row) for row in rows]
    if verbose:
        heading.insert(3, "LEADER-EPOCH")
        least.insert(3, _LEAST)
        for line, row in zip(cells, rows, strict=True):
            line.insert(3, _text(row.leader_epoch))
    return _table(heading, least, cells)


def _offset_cells(group_id: str, row: GroupRow) -> list[str]:
    lag = None if row.offset is None or row.end is None else row.end - row.offset
    place = row.partition
    member = row.member
    return [
        group_id,
        place.topic,
        str(place.partition),
        _text(row.offset),
        _text(row.end),
        _text(lag),
        *(
            (_NONE, _NONE, _NONE)
            if member is None
            else (member.member_id, member.host, member.client_id)
        ),
    ]


def members_table(group: GroupDescription, *, verbose: bool) -> str:
    """Return the table of the members."""
    has_instances = any(member.group_instance_id for member in group.members)
    heading, least = ["GROUP", "CONSUMER-ID"], [_LEAST, _LEAST]
    if has_instances:
        heading.append("GROUP-INSTANCE-ID")
        least.append(17)
    heading += ["HOST", "CLIENT-ID", "#PARTITIONS"]
    least += [_LEAST, _LEAST, _LEAST]
    if verbose:
        heading += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [_LEAST, 20, _LEAST, 20]
    cells = []
    for member in _by_size(group.members):
        line = [group.group_id, member.member_id]
        if has_instances:
            line.append(member.group_instance_id or "")
        line += [member.host, member.client_id, str(len(member.assignment))]
        if verbose:
            line += [_NONE, _assignment(member.assignment), _NONE, _NONE]
        cells.append(line)
    return _table(heading, least, cells)


def state_table(group: GroupDescription) -> str:
    """Return the table of the group's state."""
    node = group.coordinator
    heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    line = [
        group.group_id,
        f"{node.host}:{node.port}  ({node.node_id})",
        group.partition_assignor or _NONE,
        group.state,
        str(len(group.members)),
    ]
    return _table(heading, [_LEAST, 25, 20, 20, 0], [line])


def rows_of(
    group: GroupDescription,
    committed: dict[TopicPartition, tuple[int, int | None]],
    ends: dict[TopicPartition, int],
) -> list[GroupRow]:
    """Return the lines of a group: the partitions of each member, then the partitions without a
    member. `committed`: the offset and the leader epoch of each partition with a committed
    offset."""

    def row(partition: TopicPartition, member: MemberDescription | None) -> GroupRow:
        offset, epoch = committed.get(partition, (None, None))
        return GroupRow(partition, epoch, offset, ends.get(partition), member)

    rows: list[GroupRow] = []
    for member in _by_size(group.members):
        rows += [row(partition, member) for partition in sorted(member.assignment)]
    owned = {partition for member in group.members for partition in member.assignment}
    rows += [row(partition, None) for partition in sorted(set(committed) - owned)]
    return rows


def _by_size(members: Iterable[MemberDescription]) -> list[MemberDescription]:
    return sorted(members, key=lambda member: -len(member.assignment))


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    shown = [f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items()]
    return ";".join(shown) or _NONE


def _text(number: int | None) -> str:
    return _NONE if number is None else str(number)


def _table(heading: Sequence[str], least: Sequence[int], cells: Sequence[Sequence[str]]) -> str:
    lines = [heading, *cells]
    widths = [
        max(width, *(len(line[at]) for line in lines)) if width else 0
        for at, width in enumerate(least)
    ]
    text = (
        " ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "".join(f"{line}\n" for line in text)
