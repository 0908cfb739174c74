"""The group coordinator's part for one partition of `__consumer_offsets`.

Source: Kafka's GroupCoordinatorShard. Only `replay` and `replay_marker` change offsets. Membership
is in memory, and is rebuilt at load from the last record of each group, as in Kafka. A request or a
timer leads to a decision: a response, records, and effects on members. After the load, only these
effects (`EFFECTS`) change the members of a group, and only the tombstone of an empty group removes
the group. The functions that decide change neither offsets nor membership.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Any, Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.group_metadata import (
    OffsetCommitKey,
    decode_group_metadata_value,
    decode_key,
    decode_offset_commit_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.messages.delete_groups import DeletableGroupResult
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from oncelog_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from oncelog_server.coordinator.shard import (
    CoordinatorRecord,
    Decision,
    EffectRow,
    EffectTable,
    Park,
    TransactionOfRecords,
)
from oncelog_server.deferred import Deferred
from oncelog_server.group import listing
from oncelog_server.group.classic.effects import (
    AssignmentWritten,
    GroupCreated,
    InitialRebalanceProlonged,
    JoinPhaseOver,
    MemberIdGiven,
    MemberJoined,
    MemberRejoined,
    MembersLeft,
    MemberTurnedAway,
    SessionOver,
    StaticMemberReplaced,
    StaticMemberReturned,
    SyncPhaseOver,
    SyncReceived,
)
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.join import Join
from oncelog_server.group.classic.membership import Membership
from oncelog_server.group.classic.rebalance import Rebalance
from oncelog_server.group.classic.records import loaded_group
from oncelog_server.group.classic.sync import Sync
from oncelog_server.group.commits import Commits
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.effects import MemberSeen, SliceSwept
from oncelog_server.group.expiry import Expiry
from oncelog_server.group.fetches import fetch_group
from oncelog_server.group.history import Dismissal, Why
from oncelog_server.group.moment import Caller, Moment
from oncelog_server.group.records import committed_offset
from oncelog_server.group.table import GroupTable
from oncelog_server.views.groups import GroupDetails


class GroupShard:
    """The groups and offsets of one partition of `__consumer_offsets`. `new_member_id` returns a
    unique member id from a client id or a group instance id.

    The coordinator replays the log and calls `on_loaded` once. Then it calls the shard for each
    request. At the time that `next_timer` returns, it calls `due` and runs each decision. Topics
    are given by name; handlers translate the topic ids of newer versions.
    """

    __slots__ = (
        "_commits",
        "_expiry",
        "_is_loaded",
        "_join",
        "_membership",
        "_rebalance",
        "_sync",
        "table",
    )

    def __init__(self, config: GroupConfig, *, new_member_id: Callable[[str], str]) -> None:
        self.table = GroupTable(config, new_member_id)
        self._rebalance = Rebalance(self.table)
        self._join = Join(self.table, self._rebalance)
        self._sync = Sync(self.table, self._rebalance)
        self._membership = Membership(self._rebalance)
        self._commits = Commits(self.table)
        self._expiry = Expiry(self.table)
        self._is_loaded = False

    # --- requests

    def join_group(self, request: JoinGroupRequest, caller: Caller) -> Decision[JoinGroupResponse]:
        """JoinGroup v0-9."""
        return self._join.join_group(request, self._seen(caller))

    def sync_group(self, request: SyncGroupRequest, caller: Caller) -> Decision[SyncGroupResponse]:
        """SyncGroup v0-5."""
        return self._sync.sync_group(request, self._seen(caller))

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision[HeartbeatResponse]:
        """Heartbeat v0-4."""
        return self._membership.heartbeat(request, self._seen(caller))

    def leave_group(
        self, request: LeaveGroupRequest, caller: Caller
    ) -> Decision[LeaveGroupResponse]:
        """LeaveGroup v0-5."""
        return self._membership.leave_group(request, self._seen(caller))

    def offset_commit(
        self, request: OffsetCommitRequest, caller: Caller
    ) -> Decision[OffsetCommitResponse]:
        """OffsetCommit v2-10."""
        return self._commits.offset_commit(request, self._seen(caller))

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, caller: Caller
    ) -> Decision[TxnOffsetCommitResponse]:
        """TxnOffsetCommit v0-6; the records belong to the request's transaction."""
        return self._commits.txn_offset_commit(request, self._seen(caller))

    def dismissal(self, request: TxnOffsetCommitRequest) -> Dismissal | None:
        """Return the reason why the newest generation of the group does not contain the caller of
        a TxnOffsetCommit, or None (see `Commits`)."""
        return self._commits.dismissal(request)

    def outdated(self, group_id: str, generation_id: int) -> Dismissal:
        """Return the reason why a group refuses a request of generation `generation_id`."""
        group = self.table.groups.get(group_id)
        if group is None:
            return Dismissal(Why.UNKNOWN)
        return group.history.dismissal("", generation_id, ErrorCode.ILLEGAL_GENERATION)

    def live_generation(self, group_id: str) -> int | None:
        """Return the generation of a group. Return None if it has no members or does not exist."""
        group = self.table.groups.get(group_id)
        return None if group is None else group.live_generation

    def concurrent_producers(self, request: TxnOffsetCommitRequest) -> frozenset[int]:
        """Return the producers that conflict with a TxnOffsetCommit (see `Commits`)."""
        return self._commits.concurrent_producers(request)

    def offset_delete(
        self, request: OffsetDeleteRequest, caller: Caller
    ) -> Decision[OffsetDeleteResponse]:
        """OffsetDelete v0."""
        return self._commits.offset_delete(request, self._seen(caller))

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Decision[OffsetFetchResponseGroup]:
        """Return the response for one group of OffsetFetch v1-10 (see `fetches` for the older
        forms)."""
        return Decision(fetch_group(self.table.offsets, request, require_stable=require_stable))

    def describe_group(self, group_id: str) -> Decision[GroupDetails | None]:
        """Return the group in full. Return None if the group does not exist."""
        group = self.table.groups.get(group_id)
        return Decision(None if group is None else group.describe())

    def delete_groups(self, group_ids: Sequence[str]) -> Decision[list[DeletableGroupResult]]:
        """Delete the groups of DeleteGroups v0-3 that belong to this shard."""
        return listing.delete_groups(self.table, group_ids)

    def on_topics_deleted(self, topics: Set[str]) -> list[Decision[None]]:
        """Return tombstones for the offsets of deleted topics, in batches."""
        return self._expiry.on_topics_deleted(topics)

    # --- parked responses: SyncGroup until the assignment is committed

    def park(self, place: Park, answer: Deferred[Any]) -> None:
        self._sync.park(place, answer)

    def unpark(self, place: Park, answer: Deferred[Any]) -> None:
        """Do nothing: `Sync.assignment_failed` has removed the response."""

    # --- replay

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        """Apply one record, live or at load. Raises ValueError for an undecodable record.

        Records of other types (those of newer group protocols) are skipped, as in Kafka's loader.
        """
        try:
            key = decode_key(record.key)
        except UnknownRecordVersion:
            return
        if isinstance(key, OffsetCommitKey):
            self._replay_offset(key, record.value, offset, transaction)
        elif record.value is None:
            group = self._rebalance.group(key.group)
            if group is not None:
                self._rebalance.drop_group(group, group.current_state_timestamp_ms)
        elif not self._is_loaded:
            # Only during the load. After it, the group is already in the state of the record, or in
            # a later state.
            value = decode_group_metadata_value(record.value)
            self.table.groups[key.group] = loaded_group(key.group, value)

    def _replay_offset(
        self,
        key: OffsetCommitKey,
        value: bytes | None,
        offset: int,
        transaction: TransactionOfRecords | None,
    ) -> None:
        offsets = self.table.offsets
        if value is None:
            offsets.remove(key.group, key.topic, key.partition)
            return
        committed = committed_offset(decode_offset_commit_value(value), offset)
        if key.group not in self.table.groups:
            self.table.groups[key.group] = ClassicGroup(
                key.group, current_state_timestamp_ms=committed.commit_timestamp_ms
            )
        if transaction is None:
            offsets.commit(key.group, key.topic, key.partition, committed)
        else:
            offsets.stage(transaction.producer_id, key.group, key.topic, key.partition, committed)

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Apply the end of a producer's transaction: commit or drop its offsets."""
        self.table.offsets.end_transaction(producer_id, committed=committed)

    def on_loaded(self, now_ms: int, wall_ms: int) -> None:
        """Start the timers of sessions and of the expiry of offsets, after the replay of the
        log."""
        at = self._at(now_ms, wall_ms)
        self._is_loaded = True
        for group in self._rebalance.groups():
            for member in group.members.values():
                self._rebalance.restart_session(group, member, at)
            if len(group.members) > self.table.config.group_max_size:
                # group.max.size was lowered. The members that rejoin first stay in the group.
                self._rebalance.prepare(group, at)
        self._expiry.schedule(at)

    def on_unloaded(self) -> None:
        """Complete the parked requests with NOT_COORDINATOR, because this shard is no longer in
        service, for example if another broker leads the partition now."""
        for group in self._rebalance.groups():
            members = list(group.members.values())
            self._rebalance.drop_group(group, group.current_state_timestamp_ms)
            for member in members:
                code = ErrorCode.NOT_COORDINATOR
                group.refuse_parked(member, code, member_id=member.member_id)
        self.table.timers.clear()

    # --- time

    def next_timer(self) -> int | None:
        """Return the monotonic time in ms at which `due` has its next decision. Return None if no
        timer is set."""
        return self.table.timers.next_timer()

    def due(self, now_ms: int, wall_ms: int) -> Iterator[Callable[[], Decision[None] | None]]:
        """Yield a function for each due timer, and remove the timer. The function returns the
        timer's decision, or None. The timers are sessions, join and sync phases, and expired
        offsets. The caller must run each decision before it takes the next function."""
        at = self._at(now_ms, wall_ms)
        while (fire := self.table.timers.pop_due(now_ms)) is not None:
            yield partial(fire, at)

    def _seen(self, caller: Caller) -> Caller:
        self.table.latest = caller
        return caller

    def _at(self, now_ms: int, wall_ms: int) -> Moment:
        self.table.latest = Moment(now_ms=now_ms, wall_ms=wall_ms)
        return self.table.latest


EFFECTS: Final[EffectTable[GroupShard]] = {
    MembersLeft: EffectRow(taken=lambda shard, effect: shard._membership.members_left(effect)),
    MemberSeen: EffectRow(taken=lambda shard, effect: shard._rebalance.member_seen(effect)),
    SessionOver: EffectRow(taken=lambda shard, effect: shard._rebalance.session_over(effect)),
    InitialRebalanceProlonged: EffectRow(
        taken=lambda shard, effect: shard._rebalance.initial_rebalance_prolonged(effect)
    ),
    JoinPhaseOver: EffectRow(taken=lambda shard, effect: shard._rebalance.joins_over(effect)),
    SyncPhaseOver: EffectRow(taken=lambda shard, effect: shard._rebalance.syncs_over(effect)),
    SyncReceived: EffectRow(taken=lambda shard, effect: shard._rebalance.sync_received(effect)),
    AssignmentWritten: EffectRow(
        taken=lambda shard, effect: shard._sync.assignment_taken(effect),
        failed=lambda shard, effect, code: shard._sync.assignment_failed(effect, code),
        committed=lambda shard, effect: shard._sync.assignment_committed(effect),
    ),
    GroupCreated: EffectRow(
        taken=lambda shard, effect: shard._join.create_group(effect),
        failed=lambda shard, effect, code: shard._join.creation_failed(effect, code),
    ),
    MemberIdGiven: EffectRow(taken=lambda shard, effect: shard._rebalance.member_id_given(effect)),
    MemberJoined: EffectRow(taken=lambda shard, effect: shard._join.member_joined(effect)),
    MemberRejoined: EffectRow(taken=lambda shard, effect: shard._join.member_rejoined(effect)),
    MemberTurnedAway: EffectRow(taken=lambda shard, effect: shard._join.member_turned_away(effect)),
    StaticMemberReturned: EffectRow(
        taken=lambda shard, effect: shard._join.static_member_returned(effect)
    ),
    StaticMemberReplaced: EffectRow(
        failed=lambda shard, effect, code: shard._join.replacement_failed(effect, code),
        committed=lambda shard, effect: shard._join.replacement_committed(effect),
    ),
    SliceSwept: EffectRow(
        taken=lambda shard, effect: shard._expiry.slice_swept(effect),
        failed=lambda shard, effect, code: shard._expiry.failed(effect, code),
    ),
}
