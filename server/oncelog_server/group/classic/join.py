"""Decides JoinGroup. A decision concerns the members of a group, their ids, and the start of a
rebalance.

Source: Kafka's GroupMetadataManager (classicGroupJoin). KIP-345 adds static members. KIP-394
requires a member id before the first join.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog_server.coordinator.shard import Decision
from oncelog_server.group.append_errors import append_error
from oncelog_server.group.classic.effects import (
    GroupCreated,
    MemberIdGiven,
    MemberJoined,
    MemberRejoined,
    MemberTurnedAway,
    StaticMemberReplaced,
    StaticMemberReturned,
)
from oncelog_server.group.classic.group import ClassicGroup, join_refusal
from oncelog_server.group.classic.joining import Joining, joining_of, protocols_of
from oncelog_server.group.classic.member import (
    Member,
    Protocols,
    preferred_protocol,
    protocols_size,
)
from oncelog_server.group.classic.rebalance import Rebalance, join_answer
from oncelog_server.group.classic.records import (
    empty_group_record,
    replaced_member_record,
)
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.history import Why, requester
from oncelog_server.group.moment import Caller
from oncelog_server.group.records import fits_record
from oncelog_server.group.table import GroupTable
from oncelog_server.refusal import Refused

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9


class Join:
    """Decides JoinGroup requests, and carries out their effects."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def join_group(self, request: JoinGroupRequest, caller: Caller) -> Decision[JoinGroupResponse]:
        """Respond at once, or park the response until the end of the join phase."""
        group = self._rebalance.group(request.group_id)
        is_new_group = group is None
        if group is None:
            group = ClassicGroup(request.group_id, current_state_timestamp_ms=caller.wall_ms)
        try:
            self._check(request, group, is_new_group)
        except Refused as refused:
            member_id = (
                "" if refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
            )
            return Decision(join_refusal(refused.code, caller.api_version, member_id))
        if not self._accepts(group, request.member_id):
            return self._turn_away(group, request.member_id, caller)
        if request.member_id == "":
            decision = self._join_new_member(request, group, caller)
        else:
            decision = self._join_known_member(request, group, caller)
        return self._with_new_group(group, decision, caller) if is_new_group else decision

    def _check(self, request: JoinGroupRequest, group: ClassicGroup, is_new_group: bool) -> None:
        config = self._table.config
        if not request.group_id or not fits_record(request.group_id):
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        session_ms = request.session_timeout_ms
        if not (
            config.group_min_session_timeout_ms <= session_ms <= config.group_max_session_timeout_ms
        ):
            raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
        if is_new_group and request.member_id:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if not group.supports_protocols(
            request.protocol_type, [protocol.name for protocol in request.protocols]
        ):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        names = [request.protocol_type, request.group_instance_id or ""]
        names += [protocol.name for protocol in request.protocols]
        size = protocols_size((protocol.name, protocol.metadata) for protocol in request.protocols)
        if not all(map(fits_record, names)) or size > config.member_metadata_max_bytes:
            raise Refused(ErrorCode.INVALID_REQUEST)
        member = group.members.get(request.member_id)
        others = group.size_bytes - (member.size_bytes if member is not None else 0)
        if others + size > config.group_metadata_max_bytes:
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Return True if group.max.size allows the member in the group. An empty group allows every
        member. In the join phase, the first members to join are allowed, up to group.max.size. In
        other states, the present members are allowed. A new member is allowed if the group has
        fewer than group.max.size members."""
        max_size = self._table.config.group_max_size
        member = group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < max_size
        return member is not None or len(group.members) < max_size

    def _turn_away(
        self, group: ClassicGroup, member_id: str, caller: Caller
    ) -> Decision[JoinGroupResponse]:
        response = join_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, caller.api_version)
        # A group needs a record when its last member leaves. This group is full, so other members
        # stay, and the decision needs no record.
        effect = MemberTurnedAway(group.group_id, member_id, caller)
        return Decision(response, effects=(effect,))

    def member_turned_away(self, effect: MemberTurnedAway) -> None:
        """Remove the member, and end the join phase if it waited only for this member."""
        group, member_id = self._rebalance.known(effect.group_id), effect.member_id
        if group.has_member(member_id):
            group.history.departed(member_id, Why.GROUP_FULL, effect.at.wall_ms)
        self._rebalance.remove_member(group, member_id)
        self._rebalance.complete_if_all_joined(group, effect.at)

    def _with_new_group(
        self, group: ClassicGroup, decision: Decision[JoinGroupResponse], caller: Caller
    ) -> Decision[JoinGroupResponse]:
        """Return the decision with the record of the new group, which is written before the
        response is sent, as in Kafka."""

        def failed(code: int) -> JoinGroupResponse:
            return join_refusal(append_error(code), caller.api_version)

        return replace(
            decision,
            records=(empty_group_record(group),),
            effects=(GroupCreated(group.group_id, caller.wall_ms), *decision.effects),
            failed=failed,
        )

    def create_group(self, effect: GroupCreated) -> None:
        """Add a group without members."""
        self._table.groups[effect.group_id] = ClassicGroup(
            effect.group_id, current_state_timestamp_ms=effect.wall_ms
        )

    def creation_failed(self, effect: GroupCreated, code: int) -> None:
        """Remove the group after a failed creation. The parked JoinGroups of its members get the
        error code that `append_error` returns for `code`."""
        group = self._rebalance.group(effect.group_id)
        if group is None:
            return
        self._rebalance.drop_group(group, self._table.latest.wall_ms)
        for member in group.members.values():
            group.refuse_parked(member, ErrorCode(append_error(code)), member_id="")

    # --- members without an id

    def _join_new_member(
        self, request: JoinGroupRequest, group: ClassicGroup, caller: Caller
    ) -> Decision[JoinGroupResponse]:
        instance_id = request.group_instance_id
        if instance_id is not None:
            member_id = self._table.new_member_id(instance_id)
            if instance_id in group.static_members:
                return self._replace_static_member(request, group, member_id, caller)
            return _add(request, member_id, caller)
        if caller.api_version < _MEMBER_ID_REQUIRED_SINCE:
            return _add(request, self._table.new_member_id(caller.client_id), caller)
        if len(group.pending_join_members) >= self._table.config.pending_members_max:
            code = ErrorCode.GROUP_MAX_SIZE_REACHED
            return Decision(join_refusal(code, caller.api_version))
        member_id = self._table.new_member_id(caller.client_id)
        response = join_refusal(ErrorCode.MEMBER_ID_REQUIRED, caller.api_version, member_id)
        timeout_ms = request.session_timeout_ms
        given = MemberIdGiven(request.group_id, member_id, timeout_ms, caller)
        return Decision(response, effects=(given,))

    def member_joined(self, effect: MemberJoined) -> None:
        """Add the member, and start a rebalance."""
        joining = effect.joining
        group = self._rebalance.known(joining.group_id)
        member = Member(
            member_id=joining.member_id,
            group_instance_id=joining.group_instance_id,
            client_id=joining.by.client_id,
            client_host=joining.by.client_host,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            session_timeout_ms=joining.session_timeout_ms,
            protocol_type=joining.protocol_type,
            protocols=joining.protocols,
            is_new=True,
        )
        if group.waits_for_first_members:
            group.new_member_added = True
        group.add(member, joining.parked)
        timeout_ms = self._table.config.new_member_join_timeout_ms
        self._rebalance.restart_session(group, member, joining.by, timeout_ms)
        self._rebalance.prepare_or_complete(group, joining.by)

    # --- members with an id

    def _join_known_member(
        self, request: JoinGroupRequest, group: ClassicGroup, caller: Caller
    ) -> Decision[JoinGroupResponse]:
        member_id = request.member_id
        if request.group_instance_id is None and member_id in group.pending_join_members:
            return _add(request, member_id, caller)
        try:
            group.check_member(member_id, request.group_instance_id)
        except Refused as refused:
            return Decision(join_refusal(refused.code, caller.api_version, member_id))
        member = group.members[member_id]
        if self._has_to_rebalance(group, member, protocols_of(request)):
            joining = joining_of(request, member_id, caller)
            return Decision(joining.parked.answer, effects=(MemberRejoined(joining),))
        # The first response of this generation was lost, or a follower has rejoined without a need.
        return Decision(join_answer(group, member_id))

    def _has_to_rebalance(self, group: ClassicGroup, member: Member, protocols: Protocols) -> bool:
        if group.state is GroupState.PREPARING_REBALANCE or member.protocols != protocols:
            return True
        # A leader that rejoins a stable group requests a new assignment.
        return group.state is GroupState.STABLE and member.member_id == group.leader_id

    def member_rejoined(self, effect: MemberRejoined) -> None:
        """Park the response until the join phase is over."""
        joining = effect.joining
        group = self._rebalance.known(joining.group_id)
        member = group.members[joining.member_id]
        _update(group, member, joining)
        group.park_join(member, joining.parked)
        self._rebalance.prepare_or_complete(group, joining.by)

    # --- static members that come back (KIP-345)

    def _replace_static_member(
        self, request: JoinGroupRequest, group: ClassicGroup, member_id: str, caller: Caller
    ) -> Decision[JoinGroupResponse]:
        instance_id = request.group_instance_id
        assert instance_id is not None
        old_member_id = group.static_members[instance_id]
        old = group.members[old_member_id]
        joining = joining_of(request, member_id, caller)
        new = old.successor(member_id)
        new.protocols = joining.protocols
        new.rebalance_timeout_ms = joining.rebalance_timeout_ms
        new.session_timeout_ms = joining.session_timeout_ms
        # In the sync phase the leader assigns partitions to the old member id, so the new member
        # would get none.
        rebalances = (
            group.state is not GroupState.STABLE
            or preferred_protocol(group.members_after(old, new)) != group.protocol_name
        )
        returned = StaticMemberReturned(joining, rebalances)
        if rebalances:
            return Decision(joining.parked.answer, effects=(returned,))
        replaced = StaticMemberReplaced(
            group.group_id,
            instance_id,
            member_id,
            old_member_id,
            group.leader_id,
            old.protocols,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
        )
        return Decision(
            joining.parked.answer,
            (replaced_member_record(group, old, new),),
            effects=(returned, replaced),
            failed=lambda code: join_refusal(append_error(code), caller.api_version),
        )

    def static_member_returned(self, effect: StaticMemberReturned) -> None:
        """Fence the old member id. Park the response under the new member id."""
        joining = effect.joining
        group, instance_id, by = (
            self._rebalance.known(joining.group_id),
            joining.group_instance_id,
            joining.by,
        )
        assert instance_id is not None
        old_member_id = group.static_members[instance_id]
        member = group.replace_static_member(instance_id, joining.member_id)
        group.history.departed(old_member_id, Why.REPLACED, by.wall_ms, requester(by))
        _update(group, member, joining)
        self._rebalance.restart_session(group, member, by)
        group.park_join(member, joining.parked)
        if effect.rebalances:
            self._rebalance.prepare_or_complete(group, by)

    def replacement_committed(self, effect: StaticMemberReplaced) -> None:
        """Let the member continue with its previous assignment."""
        group = self._rebalance.group(effect.group_id)
        member = None if group is None else group.members.get(effect.member_id)
        parked = None if member is None else member.awaiting_join
        if group is None or member is None or parked is None:
            return
        # In a state other than Stable, a rebalance has begun meanwhile. The member has then joined
        # the rebalance, and gets its response when the join phase ends.
        if group.state is GroupState.STABLE:
            group.take_join(member)
            # The member's session may have expired while its response was parked.
            self._rebalance.restart_session(group, member, self._table.latest)
            response = _keep_answer(
                group, effect.member_id, effect.old_leader_id, parked.api_version
            )
            parked.answer.complete(response)

    def replacement_failed(self, effect: StaticMemberReplaced, code: int) -> None:
        """Restore the old member id with its settings."""
        group = self._rebalance.group(effect.group_id)
        member = None if group is None else group.members.get(effect.member_id)
        if group is None or member is None:
            return
        group.take_join(member)  # The member gets the response of the failed decision.
        group.update(
            member,
            effect.old_protocols,
            effect.old_rebalance_timeout_ms,
            effect.old_session_timeout_ms,
        )
        again = group.replace_static_member(effect.instance_id, effect.old_member_id)
        group.history.came_back(effect.old_member_id)
        self._rebalance.restart_session(group, again, self._table.latest)


def _keep_answer(
    group: ClassicGroup, member_id: str, old_leader_id: str | None, api_version: int
) -> JoinGroupResponse:
    """Return the response for a static member that has rejoined a stable group. The member
    continues with its previous assignment."""
    response = join_answer(group, member_id)
    if api_version >= _SKIP_ASSIGNMENT_SINCE:
        response.skip_assignment = member_id == group.leader_id
        return response
    # An older client computes a new assignment if the response names it as the leader.
    response.members = []
    response.leader = old_leader_id or ""
    return response


def _add(request: JoinGroupRequest, member_id: str, caller: Caller) -> Decision[JoinGroupResponse]:
    joining = joining_of(request, member_id, caller)
    return Decision(joining.parked.answer, effects=(MemberJoined(joining),))


def _update(group: ClassicGroup, member: Member, joining: Joining) -> None:
    rebalance_ms, session_ms = joining.rebalance_timeout_ms, joining.session_timeout_ms
    group.update(member, joining.protocols, rebalance_ms, session_ms)
