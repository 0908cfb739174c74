"""The rebalance of a group from one generation to the next: which members to wait for, and how
long.

Source: Kafka's GroupMetadataManager (prepareRebalance, completeClassicGroupJoin,
expirePendingSync). KIP-134 adds the initial delay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog_protocol.messages.sync_group import SyncGroupResponse
from oncelog_server.coordinator.shard import Decision, Effect
from oncelog_server.group.classic.effects import (
    InitialRebalanceProlonged,
    JoinPhaseOver,
    MemberIdGiven,
    SessionOver,
    SyncPhaseOver,
    SyncReceived,
)
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.member import Member
from oncelog_server.group.classic.records import emptied_group_record
from oncelog_server.group.classic.states import GroupEvent, GroupState
from oncelog_server.group.effects import MemberSeen
from oncelog_server.group.history import Why, requester
from oncelog_server.group.moment import Moment
from oncelog_server.group.table import GroupTable, Records
from oncelog_server.group.timers import TimerKey

# Minimum length of a join phase that is repeated because no member has joined. Without it, a
# rebalance timeout of 0 would repeat the join phase continuously.
_NONE_JOINED_RETRY_MS: Final = 1_000


def session_key(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a member without heartbeats."""
    return ("session", group_id, member_id)


def join_key(group_id: str) -> TimerKey:
    """Return the key of the timer that ends the join phase."""
    return ("join", group_id)


def sync_key(group_id: str) -> TimerKey:
    """Return the key of the timer that removes members that joined and did not sync."""
    return ("sync", group_id)


class Rebalance:
    """The timers and the steps of a rebalance. A timer makes a decision, and the effects of the
    decision carry out a step. A decision that removes the last member of a group contains a record
    (`emptied_group_record`)."""

    __slots__ = ("_table",)

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    # --- groups

    def group(self, group_id: str) -> ClassicGroup | None:
        """Return the group. Return None if the group does not exist, or has another protocol."""
        group = self._table.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def groups(self) -> list[ClassicGroup]:
        """Return all groups of the classic protocol."""
        return [group for group in self._table.groups.values() if isinstance(group, ClassicGroup)]

    def known(self, group_id: str) -> ClassicGroup:
        """Return a group that exists, because the current decision has just read it."""
        group = self.group(group_id)
        assert group is not None
        return group

    def drop_group(self, group: ClassicGroup, wall_ms: int) -> None:
        """Remove the group and its timers. The offsets of the group have their own tombstones."""
        for member_id in (*group.members, *group.pending_join_members):
            self._table.timers.cancel(session_key(group.group_id, member_id))
        self._table.timers.cancel(join_key(group.group_id))
        self._table.timers.cancel(sync_key(group.group_id))
        group.transition(GroupEvent.REMOVED, wall_ms)
        if self._table.groups.get(group.group_id) is group:
            del self._table.groups[group.group_id]

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove the member and its timer. The member's pending responses get UNKNOWN_MEMBER_ID."""
        self._table.timers.cancel(session_key(group.group_id, member_id))
        group.remove(member_id)

    # --- sessions

    def restart_session(
        self, group: ClassicGroup, member: Member, at: Moment, timeout_ms: int | None = None
    ) -> None:
        """Start the member's session again: it ends after the member's session timeout (or
        `timeout_ms`), counted from `at`."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        self._start_session_timer(group, member.member_id, at.now_ms + timeout_ms)

    def member_seen(self, effect: MemberSeen) -> None:
        """Restart the member's session."""
        group = self.known(effect.group_id)
        self.restart_session(group, group.members[effect.member_id], self._table.latest)

    def member_id_given(self, effect: MemberIdGiven) -> None:
        """Start the timer of an assigned member id. The client must use the id within its
        timeout."""
        group, deadline_ms = self.known(effect.group_id), effect.at.now_ms + effect.timeout_ms
        group.pending_join_members[effect.member_id] = None
        self._start_session_timer(group, effect.member_id, deadline_ms)

    def _start_session_timer(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        key = session_key(group.group_id, member_id)
        self._table.timers.set(key, deadline_ms, partial(self._session_over, group, member_id))

    def _session_over(
        self, group: ClassicGroup, member_id: str, at: Moment
    ) -> Decision[None] | None:
        if group.state is GroupState.DEAD:
            return None
        member = group.members.get(member_id)
        if member is None:
            if member_id not in group.pending_join_members:
                return None
        elif member.is_alive_without_heartbeats:
            return None
        effect = SessionOver(group.group_id, member_id, at)
        is_emptied = group.becomes_empty_without((member_id,))
        return _decision(group, at, effect, is_emptied=is_emptied)

    def session_over(self, effect: SessionOver) -> None:
        """Remove the member. Then start a rebalance, if the member had joined this generation. In a
        join phase, end the phase if it waited only for this member."""
        group, member_id, at = self.known(effect.group_id), effect.member_id, effect.at
        had_work = group.has_member(member_id) and group.state in (
            GroupState.STABLE,
            GroupState.COMPLETING_REBALANCE,
        )
        group.history.departed(member_id, Why.SESSION_TIMED_OUT, at.wall_ms)
        group.remove(member_id)
        if had_work:
            self.prepare(group, at)
        elif group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            self.complete_join(group, at)

    # --- the join phase

    def prepare_or_complete(self, group: ClassicGroup, at: Moment) -> None:
        """Start a rebalance for a member that has joined or changed. In a join phase, end the phase
        if all members have joined."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(group, at)
        else:
            self.prepare(group, at)

    def complete_if_all_joined(self, group: ClassicGroup, at: Moment) -> None:
        """End the join phase early if all members have joined. An initial rebalance still waits for
        its full delay."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and not group.waits_for_first_members
            and group.has_all_members_joined
        ):
            self.complete_join(group, at)

    def prepare(self, group: ClassicGroup, at: Moment) -> None:
        """Start a rebalance: all members have to rejoin, and parked SyncGroups get
        REBALANCE_IN_PROGRESS. `at` has the request that caused the rebalance, if there was one."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, at)
        group.pending_sync_members.clear()
        self._table.timers.cancel(sync_key(group.group_id))
        is_initial = group.state is GroupState.EMPTY
        group.history.rebalance_began(requester(at))
        group.transition(GroupEvent.REBALANCE, at.wall_ms)
        if is_initial:
            delay_ms = self._table.config.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.new_member_added = False
            self._wait_for_first_members(group, delay_ms, remaining_ms, at)
        elif group.has_all_members_joined:
            self.complete_join(group, at)
        else:
            self._wait_for_joins(group, at)

    def _wait_for_joins(self, group: ClassicGroup, at: Moment, *, at_least_ms: int = 0) -> None:
        deadline_ms = at.now_ms + max(group.rebalance_timeout_ms, at_least_ms)
        self._table.timers.set(
            join_key(group.group_id), deadline_ms, partial(self._joins_over, group)
        )

    def _joins_over(self, group: ClassicGroup, at: Moment) -> Decision[None]:
        is_emptied = all(member.misses_join for member in group.members.values())
        return _decision(group, at, JoinPhaseOver(group.group_id, at), is_emptied=is_emptied)

    def joins_over(self, effect: JoinPhaseOver) -> None:
        """End the join phase, even if some members have not joined."""
        self.complete_join(self.known(effect.group_id), effect.at)

    def _wait_for_first_members(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int, at: Moment
    ) -> None:
        self._table.timers.set(
            join_key(group.group_id),
            at.now_ms + delay_ms,
            partial(self._first_members_over, group, delay_ms, remaining_ms),
        )

    def _first_members_over(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int, at: Moment
    ) -> Decision[None]:
        if not group.new_member_added or remaining_ms == 0:
            return self._joins_over(group, at)
        prolonged = InitialRebalanceProlonged(
            group.group_id,
            min(self._table.config.group_initial_rebalance_delay_ms, remaining_ms),
            max(remaining_ms - delay_ms, 0),
            at,
        )
        return Decision(None, effects=(prolonged,))

    def initial_rebalance_prolonged(self, effect: InitialRebalanceProlonged) -> None:
        """Wait again for more members."""
        group = self.known(effect.group_id)
        group.new_member_added = False
        self._wait_for_first_members(group, effect.delay_ms, effect.remaining_ms, effect.at)

    def complete_join(self, group: ClassicGroup, at: Moment) -> None:
        """Complete the join phase. Members that did not join are removed, except static members."""
        self._table.timers.cancel(join_key(group.group_id))
        missing = [member.member_id for member in group.members.values() if member.misses_join]
        for member_id in missing:
            group.history.departed(member_id, Why.MISSED_REBALANCE, at.wall_ms)
            self.remove_member(group, member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none of them has rejoined. So the group waits until
            # their sessions expire.
            self._wait_for_joins(group, at, at_least_ms=_NONE_JOINED_RETRY_MS)
            return
        group.start_next_generation(at.wall_ms)
        if group.members:
            self._answer_joins(group, at)

    def _answer_joins(self, group: ClassicGroup, at: Moment) -> None:
        group.pending_sync_members = dict.fromkeys(group.members)
        deadline_ms = at.now_ms + group.rebalance_timeout_ms
        overdue = partial(self._syncs_over, group, group.generation_id)
        self._table.timers.set(sync_key(group.group_id), deadline_ms, overdue)
        answers = []
        for member in group.members.values():
            member.is_new = False
            self.restart_session(group, member, at)
            parked = group.take_join(member)
            if parked is not None:
                answers.append((parked.answer, join_answer(group, member.member_id)))
        for answer, response in answers:
            answer.complete(response)

    # --- the sync phase

    def sync_received(self, effect: SyncReceived) -> None:
        """Stop waiting for the SyncGroup of this member."""
        group = self.known(effect.group_id)
        group.pending_sync_members.pop(effect.member_id, None)
        if not group.pending_sync_members:
            self._table.timers.cancel(sync_key(group.group_id))

    def _syncs_over(
        self, group: ClassicGroup, generation_id: int, at: Moment
    ) -> Decision[None] | None:
        if (
            generation_id != group.generation_id
            or group.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
            or not group.pending_sync_members
        ):
            return None
        is_emptied = group.becomes_empty_without(group.pending_sync_members)
        return _decision(group, at, SyncPhaseOver(group.group_id, at), is_emptied=is_emptied)

    def syncs_over(self, effect: SyncPhaseOver) -> None:
        """Remove the members that have not synced, and start a rebalance of the remaining
        members."""
        group, at = self.known(effect.group_id), effect.at
        for member_id in list(group.pending_sync_members):
            group.history.departed(member_id, Why.MISSED_REBALANCE, at.wall_ms)
            self.remove_member(group, member_id)
        self.prepare(group, at)

    def refuse_syncs(self, group: ClassicGroup, code: int, at: Moment) -> None:
        """Complete the parked SyncGroups with `code`, because this generation gets no
        assignment."""
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, at, lambda member: SyncGroupResponse(error_code=code))

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], at: Moment) -> None:
        """Complete the parked SyncGroups with their parts of the committed assignment."""
        group.transition(GroupEvent.ASSIGNED, at.wall_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._answer_syncs(group, at, partial(sync_answer, group))

    def _answer_syncs(
        self, group: ClassicGroup, at: Moment, answer_for: Callable[[Member], SyncGroupResponse]
    ) -> None:
        waiting = []
        for member in group.members.values():
            parked, member.awaiting_sync = member.awaiting_sync, None
            if parked is not None:
                # The member's session may have expired while its response was parked.
                self.restart_session(group, member, at)
                waiting.append((parked.answer, answer_for(member)))
        for answer, response in waiting:
            answer.complete(response)


def join_answer(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """Return the current generation for the member. The leader also gets the metadata of all
    members."""
    response = JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member_id,
    )
    if member_id == group.leader_id:
        response.members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return response


def sync_answer(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Return the member's part of the current assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _decision(
    group: ClassicGroup, at: Moment, effect: Effect, *, is_emptied: bool
) -> Decision[None]:
    """Return the decision of a timer. `is_emptied`: the effect removes the last member of the
    group."""
    records: Records = (emptied_group_record(group, at.wall_ms),) if is_emptied else ()
    return Decision(None, records, effects=(effect,))
