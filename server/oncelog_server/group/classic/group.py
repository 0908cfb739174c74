"""A classic consumer group: its members, leader, protocol and generation. Rules only, no timers.

Source: Kafka's ClassicGroup (KIP-62, KIP-345, KIP-394).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.join_group import JoinGroupResponse
from oncelog_protocol.messages.sync_group import SyncGroupResponse
from oncelog_server.group.classic.member import (
    Member,
    Parked,
    Protocols,
    preferred_protocol,
)
from oncelog_server.group.classic.states import DELETE_CODES, GroupEvent, GroupState, next_state
from oncelog_server.group.classic.subscriptions import subscribed_topics
from oncelog_server.group.history import History
from oncelog_server.refusal import Refused
from oncelog_server.views.groups import GroupDetails, MemberView

CONSUMER_PROTOCOL_TYPE = "consumer"
GROUP_TYPE = "classic"


class ClassicGroup:
    """A classic group. `protocol_type` is None for a simple group, which only has offsets. Members
    are in the order of their joins."""

    __slots__ = (
        "awaiting_join_count",
        "current_state_timestamp_ms",
        "generation_id",
        "group_id",
        "history",
        "leader_id",
        "members",
        "new_member_added",
        "pending_join_members",
        "pending_sync_members",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "size_bytes",
        "state",
        "static_members",
        "subscribed_topics",
        "supported_protocols",
        "writing_generation_id",
    )

    def __init__(self, group_id: str, *, current_state_timestamp_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.current_state_timestamp_ms = current_state_timestamp_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        # group_instance_id -> member_id
        self.static_members: dict[str, str] = {}
        # Member ids that were assigned and have not joined yet (KIP-394). A dict keeps their order.
        self.pending_join_members: dict[str, None] = {}
        self.pending_sync_members: dict[str, None] = {}
        self.supported_protocols: Counter[str] = Counter()
        self.awaiting_join_count = 0
        self.size_bytes = 0
        # True if a member has joined during an initial rebalance, which may extend the delay.
        self.new_member_added = False
        # None if the topics are unknown, because the members are no consumers, or because their
        # metadata cannot be read.
        self.subscribed_topics: frozenset[str] | None = None
        # The last generation with an appended assignment, committed or not.
        self.writing_generation_id: int | None = None
        self.history = History()

    # --- state

    def transition(self, event: GroupEvent, wall_ms: int) -> None:
        """Take the transition for `event`. Raises IllegalTransition if the state has none."""
        state = next_state(self.state, event)
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp_ms = wall_ms

    def start_next_generation(self, wall_ms: int) -> None:
        """End the join phase and start a new generation, with the protocol that most members
        prefer."""
        self.generation_id += 1
        self.history.generation_began(self.generation_id, wall_ms)
        self.protocol_name = preferred_protocol(self.members.values())
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition(GroupEvent.JOINED if self.members else GroupEvent.EMPTIED, wall_ms)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Return True if the members are consumers. The broker knows the format of the metadata of
        consumers only."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_members_joined(self) -> bool:
        """Return True if the join phase waits for no member any more."""
        return len(self.members) == self.awaiting_join_count and not self.pending_join_members

    @property
    def waits_for_first_members(self) -> bool:
        """Return True if this is the join phase of an initial rebalance (KIP-134)."""
        return (
            self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY
        )

    def becomes_empty_without(self, member_ids: Container[str]) -> bool:
        """Return True if the group loses its last member when `member_ids` leave. Assigned member
        ids that have not joined yet count as members here."""
        return (
            self.state is not GroupState.EMPTY
            and all(member_id in member_ids for member_id in self.members)
            and all(member_id in member_ids for member_id in self.pending_join_members)
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of a member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- as any group (`group.Group`)

    @property
    def type(self) -> str:
        return GROUP_TYPE

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def live_generation(self) -> int | None:
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return None
        return self.generation_id

    @property
    def is_unused(self) -> bool:
        return self.state is GroupState.EMPTY and not self.pending_join_members

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    @property
    def offset_delete_code(self) -> ErrorCode:
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    @property
    def delete_code(self) -> ErrorCode:
        return DELETE_CODES[self.state]

    def check_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Raise Refused unless this member may write offsets. Source: Kafka's
        ClassicGroup.validateOffsetCommit."""
        if self.state is GroupState.DEAD:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return  # An administrator, or a consumer without group assignment.
        if generation_id >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if generation_id != self.generation_id:
                raise Refused(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        # A plain commit between the member's JoinGroup and SyncGroup is refused. Kafka accepts an
        # offset of a transaction even then.
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return the time (ms) from which the retention of an offset counts, if the group is not
        subscribed to the topic of the offset. Return None if no offset expires in the present
        state of the group. Source: Kafka's ClassicGroup.offsetExpirationCondition (KIP-211)."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            # The retention time counts from the moment when the group became empty.
            if self.current_state_timestamp_ms != -1:
                return self.current_state_timestamp_ms
        elif self.state is not GroupState.STABLE or self.subscribed_topics is None:
            return None
        return commit_timestamp_ms

    def describe(self) -> GroupDetails:
        """Return the details of the group. Metadata and protocol are shown only in the state
        Stable, in which all members agree on them."""
        protocol = self.protocol_name if self.state is GroupState.STABLE else None
        return GroupDetails(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            protocol or "",
            tuple(
                MemberView(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    b"" if protocol is None else member.metadata(protocol),
                    member.assignment,
                )
                for member in self.members.values()
            ),
        )

    # --- protocols

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return True if a member with these protocols may join the group. In a group with members,
        all members must support at least one of these protocols, the same one."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(
            self.supported_protocols[name] == len(self.members) for name in names
        )

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of all members. Return None if the members are no consumers, or if the
        metadata of a member cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return None
            topics.update(found)
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return True if a member subscribes to the topic. A consumer group with unreadable
        metadata counts as subscribed to every topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # --- members

    def add(self, member: Member, parked: Parked[JoinGroupResponse] | None = None) -> None:
        """Add a member. Raises ValueError for a static member that is in the group already, because
        the caller must replace such a member."""
        if member.group_instance_id is not None:
            if member.group_instance_id in self.static_members:
                raise ValueError(f"instance {member.group_instance_id} is a member already")
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.history.came_back(member.member_id)
        self._count_protocols(member, 1)
        self.pending_join_members.pop(member.member_id, None)
        if parked is not None:
            self.park_join(member, parked)

    def remove(self, member_id: str, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member, or a member id that has not joined yet. Pending responses of the member
        get `code`."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_members.pop(member_id, None)
        self.pending_sync_members.pop(member_id, None)
        if member is not None:
            self.refuse_parked(member, code, member_id="")

    def update(
        self, member: Member, protocols: Protocols, rebalance_ms: int, session_ms: int
    ) -> None:
        """Update a member that rejoins, possibly with other settings."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms
        self._count_protocols(member, 1)

    def members_after(self, old: Member, new: Member) -> list[Member]:
        """Return the members with `new` in the place of `old`, in the same order."""
        return [new if member is old else member for member in self.members.values()]

    def replace_static_member(self, group_instance_id: str, new_member_id: str) -> Member:
        """Replace the member id of the instance with `new_member_id`, and fence the previous member
        id."""
        old_member_id = self.static_members[group_instance_id]
        old = self.members[old_member_id]
        self._count_protocols(old, -1)
        new = old.successor(new_member_id)
        self.members = {member.member_id: member for member in self.members_after(old, new)}
        self._count_protocols(new, 1)
        self.static_members[group_instance_id] = new_member_id
        self.pending_sync_members.pop(old_member_id, None)
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.refuse_parked(old, ErrorCode.FENCED_INSTANCE_ID, member_id=old_member_id)
        return new

    def elect_joined_leader(self) -> bool:
        """Keep the leader if the leader has joined. Otherwise elect the first member that has
        joined. Return False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def check_member(
        self, member_id: str, group_instance_id: str | None, *, leaving: Container[str] = ()
    ) -> None:
        """Raise Refused: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the
        instance. `leaving`: ids that count as unknown."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None or current in leaving:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members or member_id in leaving:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)

    # --- parked responses

    def park_join(self, member: Member, parked: Parked[JoinGroupResponse]) -> None:
        """Keep the member's JoinGroup until the end of the join phase. An older JoinGroup of the
        member gets an error code."""
        older = self.take_join(member)
        member.awaiting_join = parked
        self.awaiting_join_count += 1
        if older is not None:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            older.answer.complete(join_refusal(code, older.api_version, member.member_id))

    def take_join(self, member: Member) -> Parked[JoinGroupResponse] | None:
        """Remove the member's pending JoinGroup and return it, so that the caller completes the
        response. Return None if the member has no pending JoinGroup."""
        parked = member.awaiting_join
        if parked is not None:
            member.awaiting_join = None
            self.awaiting_join_count -= 1
        return parked

    def refuse_parked(self, member: Member, code: ErrorCode, *, member_id: str) -> None:
        """Complete all pending responses of the member with `code`."""
        if member.awaiting_join is not None:
            join = member.awaiting_join
            member.awaiting_join = None
            self.awaiting_join_count -= 1
            join.answer.complete(join_refusal(code, join.api_version, member_id))
        sync, member.awaiting_sync = member.awaiting_sync, None
        if sync is not None:
            sync.answer.complete(SyncGroupResponse(error_code=code))

    def _count_protocols(self, member: Member, change: int) -> None:
        self.size_bytes += change * member.size_bytes
        for name in {name for name, _ in member.protocols}:
            self.supported_protocols[name] += change
            if not self.supported_protocols[name]:
                del self.supported_protocols[name]


def join_refusal(code: int, api_version: int, member_id: str = "") -> JoinGroupResponse:
    """Return a JoinGroup response that only has an error code."""
    return JoinGroupResponse(
        error_code=code,
        member_id=member_id,
        protocol_name=None if api_version >= 7 else "",
    )
