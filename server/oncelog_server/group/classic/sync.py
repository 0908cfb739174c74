"""SyncGroup: the leader's assignment becomes a record, then everybody's answer.

Source: Kafka's GroupMetadataManager (classicGroupSync).
"""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.member import Parked
from oncelog_server.group.classic.rebalance import Rebalance, sync_answer
from oncelog_server.group.classic.states import GroupState, append_error
from oncelog_server.group.moment import Caller
from oncelog_server.group.records import group_record
from oncelog_server.group.table import GroupTable
from oncelog_server.refusal import Refused


class Sync:
    """Decides SyncGroup requests."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def sync_group(self, request: SyncGroupRequest, caller: Caller) -> Decision[SyncGroupResponse]:
        """A follower's answer is parked until the leader's assignment is committed."""
        group = self._table.groups.get(request.group_id)
        try:
            group = _check(request, group)
        except Refused as refused:
            return Decision(SyncGroupResponse(error_code=refused.code))
        member = group.members[request.member_id]
        self._rebalance.sync_received(group, request.member_id)
        if group.state is GroupState.STABLE:
            return Decision(sync_answer(group, member))
        answer: Deferred[SyncGroupResponse] = Deferred()
        older, member.awaiting_sync = member.awaiting_sync, Parked(answer, caller.api_version)
        if older is not None:
            older.answer.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        if (
            request.member_id != group.leader_id
            or group.writing_generation_id == group.generation_id
        ):
            return Decision(answer)
        return self._write_assignment(request, group, answer)

    def _write_assignment(
        self,
        request: SyncGroupRequest,
        group: ClassicGroup,
        answer: Deferred[SyncGroupResponse],
    ) -> Decision[SyncGroupResponse]:
        given = {item.member_id: item.assignment for item in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation_id = group.generation_id
        group.writing_generation_id = generation_id

        def is_current() -> bool:
            # Somebody may have joined, or left, since the append.
            return (
                group.state is GroupState.COMPLETING_REBALANCE
                and group.generation_id == generation_id
            )

        def on_committed() -> None:
            if is_current():
                self._rebalance.assign(group, assignments, self._table.latest)

        def on_failure(code: int) -> SyncGroupResponse:
            error = append_error(code)
            if is_current():
                self._rebalance.refuse_syncs(group, error, self._table.latest)
                latest = self._table.latest
                # Nobody's request: the last that came was about something else.
                self._rebalance.prepare(group, latest.without_caller())
            return SyncGroupResponse(error_code=error)

        return Decision(
            answer,
            (group_record(group, assignments),),
            on_failure=on_failure,
            on_committed=on_committed,
        )


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
