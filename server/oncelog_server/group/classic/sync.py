"""Decides SyncGroup. The leader's assignment becomes a record, then every member gets its part as
the response.

Source: Kafka's GroupMetadataManager (classicGroupSync).
"""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncelog_server.coordinator.shard import Decision, Park
from oncelog_server.deferred import Deferred
from oncelog_server.group.append_errors import append_error
from oncelog_server.group.classic.effects import AssignmentWritten, SyncReceived
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.member import Parked
from oncelog_server.group.classic.rebalance import Rebalance, sync_answer
from oncelog_server.group.classic.records import group_record
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.moment import Caller
from oncelog_server.group.table import GroupTable
from oncelog_server.refusal import Refused


class Sync:
    """Decides SyncGroup requests, and carries out their effects."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def sync_group(self, request: SyncGroupRequest, caller: Caller) -> Decision[SyncGroupResponse]:
        """Park the response until the leader's assignment is committed. In a stable group, respond
        at once."""
        group = self._rebalance.group(request.group_id)
        try:
            group = _check(request, group)
        except Refused as refused:
            return Decision(SyncGroupResponse(error_code=refused.code))
        member = group.members[request.member_id]
        received = SyncReceived(request.group_id, request.member_id)
        if group.state is GroupState.STABLE:
            return Decision(sync_answer(group, member), effects=(received,))
        parked = Park((request.group_id, request.member_id, caller.api_version))
        if (
            request.member_id != group.leader_id
            or group.writing_generation_id == group.generation_id
        ):
            return Decision(parked, effects=(received,))
        given = {item.member_id: item.assignment for item in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        written = AssignmentWritten(request.group_id, group.generation_id, assignments)
        return Decision(
            parked,
            (group_record(group, assignments),),
            effects=(received, written),
            failed=lambda code: SyncGroupResponse(error_code=append_error(code)),
        )

    # --- effects

    def park(self, place: Park, answer: Deferred[SyncGroupResponse]) -> None:
        """Keep the response. An earlier parked response of the same member gets an error code."""
        group_id, member_id, api_version = place.key
        member = self._rebalance.known(str(group_id)).members[str(member_id)]
        older, member.awaiting_sync = member.awaiting_sync, Parked(answer, int(api_version))
        if older is not None:
            older.answer.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def assignment_taken(self, effect: AssignmentWritten) -> None:
        """Remember that the assignment is appended. A second SyncGroup of the leader then just
        waits."""
        self._rebalance.known(effect.group_id).writing_generation_id = effect.generation_id

    def assignment_committed(self, effect: AssignmentWritten) -> None:
        """Send every parked member its part of the assignment. Do nothing if members have joined or
        left since the append."""
        group = self._current(effect)
        if group is not None:
            self._rebalance.assign(group, effect.assignments, self._table.latest)

    def assignment_failed(self, effect: AssignmentWritten, code: int) -> None:
        """Send an error code to every parked member, and start a rebalance. `code` is that of the
        failed append. `append_error` returns the code for clients."""
        group = self._current(effect)
        if group is not None:
            latest = self._table.latest
            self._rebalance.refuse_syncs(group, append_error(code), latest)
            # No request has caused this rebalance, so the caller of an earlier request must not be
            # named as its cause.
            self._rebalance.prepare(group, latest.without_caller())

    def _current(self, effect: AssignmentWritten) -> ClassicGroup | None:
        """Return the group if the group waits for this assignment, else None."""
        group = self._rebalance.group(effect.group_id)
        if (
            group is None
            or group.state is not GroupState.COMPLETING_REBALANCE
            or group.generation_id != effect.generation_id
        ):
            return None
        return group


def _check(request: SyncGroupRequest, group: ClassicGroup | None) -> ClassicGroup:
    if not request.group_id:
        raise Refused(ErrorCode.INVALID_GROUP_ID)
    if group is None or group.state is GroupState.EMPTY:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def _differs(asked: str | None, current: str | None) -> bool:
    return asked is not None and current is not None and asked != current
