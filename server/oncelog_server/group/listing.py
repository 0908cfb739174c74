"""ListGroups and DeleteGroups, for the groups of one shard.

Source: Kafka's GroupMetadataManager. The filter by state is KIP-518, the filter by type KIP-848.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_groups import DeletableGroupResult
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.group.append_errors import append_error
from oncelog_server.group.records import group_tombstone, offset_tombstone
from oncelog_server.group.table import GroupTable
from oncelog_server.views.groups import GroupView


class GroupFilter:
    """Matches groups in one of the states and of one of the types. Upper and lower case do not
    matter. An empty filter matches all groups."""

    __slots__ = ("_states", "_types")

    def __init__(self, states: Iterable[str], types: Iterable[str]) -> None:
        self._states = frozenset(state.strip().lower() for state in states)
        self._types = frozenset(name.strip().lower() for name in types)

    def has(self, view: GroupView) -> bool:
        return (not self._states or view.state.lower() in self._states) and (
            not self._types or view.type in self._types
        )


def views_of(table: GroupTable) -> Iterator[GroupView]:
    """Yield the groups that exist at the call. Each view shows the group's state at the moment of
    its yield. A group that is deleted before this moment is left out."""
    groups = list(table.groups.values())
    return (
        GroupView(group.group_id, group.protocol_type or "", group.state_name, group.type)
        for group in groups
        if table.groups.get(group.group_id) is group
    )


def delete_groups(
    table: GroupTable, group_ids: Sequence[str]
) -> Decision[list[DeletableGroupResult]]:
    """Return the result for each group, and tombstones for each empty group and its offsets.

    A group with offsets in an undecided transaction does not count as empty. Kafka deletes such a
    group, so the group's pending offsets are lost silently when the transaction commits.
    """
    results: dict[str, DeletableGroupResult] = {}
    records: list[CoordinatorRecord] = []
    for group_id in dict.fromkeys(group_ids):
        code = _delete_code(table, group_id)
        results[group_id] = DeletableGroupResult(group_id=group_id, error_code=code)
        if code is ErrorCode.NONE:
            records += offset_tombstones(table, group_id)
            records.append(group_tombstone(group_id))

    def failed(code: int) -> list[DeletableGroupResult]:
        return [
            DeletableGroupResult(
                group_id=result.group_id, error_code=result.error_code or append_error(code)
            )
            for result in results.values()
        ]

    return Decision(list(results.values()), tuple(records), failed=failed)


def _delete_code(table: GroupTable, group_id: str) -> ErrorCode:
    group = table.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if table.offsets.is_group_in_transaction(group_id):
        return ErrorCode.NON_EMPTY_GROUP
    return group.delete_code


def offset_tombstones(table: GroupTable, group_id: str) -> list[CoordinatorRecord]:
    """Return a tombstone for every committed offset of the group."""
    return [
        offset_tombstone(group_id, topic, partition)
        for topic, partitions in table.offsets.of_group(group_id).items()
        for partition in partitions
    ]
