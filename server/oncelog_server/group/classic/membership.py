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
from oncelog_server.group.classic.effects import MembersLeft
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.rebalance import Rebalance
from oncelog_server.group.classic.records import emptied_group_record
from oncelog_server.group.classic.states import HEARTBEAT_CODES, GroupState
from oncelog_server.group.effects import MemberSeen
from oncelog_server.group.history import Why, requester
from oncelog_server.group.moment import Caller
from oncelog_server.group.table import Records
from oncelog_server.refusal import Refused

_MANY_MEMBERS_SINCE: Final = 3


class Membership:
    """Decides Heartbeat and LeaveGroup requests, and carries out their effects."""

    __slots__ = ("_rebalance",)

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision[HeartbeatResponse]:
        """Extend the member's session. The response's error code says whether a rebalance is in
        progress."""
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
        """Remove a single member (v0 to v2) or several members. An administrator names members by
        instance id."""
        if not request.group_id:
            return Decision(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        members = request.members
        if caller.api_version < _MANY_MEMBERS_SINCE:
            members = [MemberIdentity(member_id=request.member_id)]
        group = self._rebalance.group(request.group_id)
        leaving: dict[str, None] = {}
        results = [
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=_leave(group, member, leaving),
            )
            for member in members
        ]
        response = LeaveGroupResponse(members=results)
        if caller.api_version < _MANY_MEMBERS_SINCE:
            response = LeaveGroupResponse(error_code=results[0].error_code)
        if group is None or not leaving:
            return Decision(response)
        records: Records = ()
        if group.becomes_empty_without(leaving) and not group.waits_for_first_members:
            records = (emptied_group_record(group, caller.wall_ms),)
        # The members have left, even if the record of the empty group could not be written. After a
        # restart, the members of the last written generation just time out.
        return Decision(
            response,
            records,
            effects=(MembersLeft(group.group_id, tuple(leaving), caller),),
            failed=lambda code: LeaveGroupResponse(error_code=append_error(code)),
        )

    def members_left(self, effect: MembersLeft) -> None:
        """Remove the members from the group, and start a rebalance of the remaining members."""
        group, at = self._rebalance.known(effect.group_id), effect.at
        for member_id in effect.member_ids:
            group.history.departed(member_id, Why.LEFT, at.wall_ms, requester(at))
            self._rebalance.remove_member(group, member_id)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._rebalance.prepare(group, at)
        else:
            self._rebalance.complete_if_all_joined(group, at)


def _leave(group: ClassicGroup | None, member: MemberIdentity, leaving: dict[str, None]) -> int:
    """Add the member to `leaving` and return NONE, or return the error code."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id = member.member_id
    if not member_id:
        found = group.static_members.get(member.group_instance_id or "")
        if member.group_instance_id is None or found is None or found in leaving:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = found
    elif member_id not in group.pending_join_members or member_id in leaving:
        try:
            group.check_member(member_id, member.group_instance_id, leaving=leaving)
        except Refused as refused:
            return refused.code
    leaving[member_id] = None
    return ErrorCode.NONE
