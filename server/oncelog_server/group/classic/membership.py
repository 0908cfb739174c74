"""Heartbeat and LeaveGroup.

Source: Kafka's GroupMetadataManager (classicGroupHeartbeat, classicGroupLeave).
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from oncelog_server.coordinator.shard import Decision
from oncelog_server.group.append_errors import append_error
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.rebalance import Rebalance
from oncelog_server.group.classic.states import HEARTBEAT_CODES, GroupState
from oncelog_server.group.effects import MemberSeen
from oncelog_server.group.history import Why, requester
from oncelog_server.group.moment import Caller
from oncelog_server.group.table import GroupTable, Records
from oncelog_server.refusal import Refused

_MANY_MEMBERS_SINCE: Final = 3


class Membership:
    """Decides Heartbeat and LeaveGroup requests."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision[HeartbeatResponse]:
        """Keep the member's session; the code says whether a rebalance is in progress."""
        if not request.group_id:
            return Decision(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self._rebalance.group(request.group_id)
        if group is None:
            return Decision(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            group.check_member(request.member_id, request.group_instance_id)
            if request.generation_id != group.generation_id:
                raise Refused(ErrorCode.ILLEGAL_GENERATION)
        except Refused as refused:
            return Decision(HeartbeatResponse(error_code=refused.code))
        return Decision(
            HeartbeatResponse(error_code=HEARTBEAT_CODES[group.state]),
            effects=(MemberSeen(request.group_id, request.member_id),),
        )

    def leave_group(
        self, request: LeaveGroupRequest, caller: Caller
    ) -> Decision[LeaveGroupResponse]:
        """Removes one member (v0 to v2) or several; an administrator names them by instance id."""
        if not request.group_id:
            return Decision(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        members = request.members
        if caller.api_version < _MANY_MEMBERS_SINCE:
            members = [MemberIdentity(member_id=request.member_id)]
        group = self._rebalance.group(request.group_id)
        results = [
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=self._leave(group, member, caller),
            )
            for member in members
        ]
        records: Records = ()
        if group is not None and any(not result.error_code for result in results):
            records = self._after_leaving(group, caller)
        response = LeaveGroupResponse(members=results)
        if caller.api_version < _MANY_MEMBERS_SINCE:
            response = LeaveGroupResponse(error_code=results[0].error_code)
        # They have left, whether or not the empty group could be written: after a restart the
        # members of the generation before would only time out.
        return Decision(
            response,
            records,
            failed=lambda code: LeaveGroupResponse(error_code=append_error(code)),
        )

    def _leave(self, group: ClassicGroup | None, member: MemberIdentity, caller: Caller) -> int:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = member.member_id
        if not member_id:
            found = group.static_members.get(member.group_instance_id or "")
            if member.group_instance_id is None or found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id not in group.pending_join_members:
            try:
                group.check_member(member_id, member.group_instance_id)
            except Refused as refused:
                return refused.code
        group.history.departed(member_id, Why.LEFT, caller.wall_ms, requester(caller))
        self._rebalance.remove_member(group, member_id)
        return ErrorCode.NONE

    def _after_leaving(self, group: ClassicGroup, caller: Caller) -> Records:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._rebalance.prepare(group, caller)
        return self._rebalance.complete_if_all_joined(group, caller)
