"""A member of a classic group: join, sync, heartbeat as a state machine (KIP-62, 345, 394, 429).

The state machine returns requests and takes their responses. The caller has sockets, callbacks and
clocks. Times are in ms of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from oncelog_client.errors import IllegalStateError, KafkaError
from oncelog_client.values import ConsumerGroupMetadata, TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal import consumer_protocol
from oncelog_protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from oncelog_protocol.messages.heartbeat import HeartbeatRequest
from oncelog_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

from .assignors import ASSIGNORS, cooperative
from .group_protocol import own_assignment, rows_by_topic

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1


class MemberState(Enum):
    """The states of a member. UNJOINED may still hold an id, a generation and partitions."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


class MemberEvent(Enum):
    """The events of a member."""

    JOIN = "join"
    JOINED = "joined"
    SYNCED = "synced"
    REJOIN = "rejoin"
    RESET = "reset"


_TRANSITIONS: Final[dict[tuple[MemberState, MemberEvent], MemberState]] = {
    (MemberState.UNJOINED, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.JOINING, MemberEvent.JOINED): MemberState.SYNCING,
    (MemberState.SYNCING, MemberEvent.SYNCED): MemberState.STABLE,
    (MemberState.STABLE, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.JOINING, MemberEvent.REJOIN): MemberState.UNJOINED,
    (MemberState.SYNCING, MemberEvent.REJOIN): MemberState.UNJOINED,
    **{(state, MemberEvent.RESET): MemberState.UNJOINED for state in MemberState},
}


class Reaction(Enum):
    """The meaning of a response of the group coordinator."""

    CONTINUE = "continue"
    RETRY = "ask again"
    FIND_COORDINATOR = "find the new coordinator"
    REJOIN = "join again, with the same member id"
    # The broker does not know this member any more: its partitions are lost.
    START_OVER = "join as a new member"
    FATAL = "fatal"


_REACTIONS: Final[dict[ErrorCode, Reaction]] = {
    ErrorCode.NONE: Reaction.CONTINUE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: Reaction.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Reaction.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.START_OVER,
    ErrorCode.ILLEGAL_GENERATION: Reaction.START_OVER,
}


def reaction(api: ApiKey, code: int) -> Reaction:
    """Return the meaning of `code` in a response to `api`. A code that `_REACTIONS` lacks is
    fatal."""
    try:
        found = _REACTIONS.get(ErrorCode(code), Reaction.FATAL)
    except ValueError:
        return Reaction.FATAL
    if api == ApiKey.SYNC_GROUP and found in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
        # A repeated SyncGroup could belong to an outdated round, because the members may have
        # changed meanwhile. So the member joins again.
        return Reaction.REJOIN
    return found


# The codes with which the coordinator refuses a member's commit.
_MEMBER_REFUSALS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


def _stale(outcome: Reaction) -> Reaction:
    """Return the reaction to a response of a round that a `start_over` has ended."""
    return Reaction.REJOIN if outcome is Reaction.CONTINUE else outcome


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of an assignment. The member handles `revoked` first, then `added`."""

    added: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """The consumer's settings for its membership. Times are in ms."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    strategies: tuple[str, ...] = ("range", "cooperative-sticky")
    rack_id: str | None = None


class Membership:
    """A consumer's membership in its group."""

    def __init__(self, config: MembershipConfig, now_ms: float) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.protocol_name: str | None = None
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self._generation_lost = False
        self._last_poll_ms = now_ms
        self._poll_waits = False
        self._last_heartbeat_ms = now_ms
        self._session_start_ms = now_ms
        self.metadata = self.identity

    @property
    def cooperative(self) -> bool:
        """Return True if the member keeps its partitions during a rebalance."""
        return cooperative(self.config.strategies)

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """Return the present member id and generation. They may change between two polls."""
        return ConsumerGroupMetadata(
            self.config.group_id, self.generation_id, self.member_id, self.config.group_instance_id
        )

    def _apply(self, event: MemberEvent) -> None:
        following = _TRANSITIONS.get((self.state, event))
        if following is None:
            raise IllegalStateError(f"{event.value} is not possible while {self.state.value}")
        self.state = following

    # -- joining

    def refresh_metadata(self) -> None:
        """Set `metadata` to the present identity, because the records that the application polls
        from now on belong to this generation.

        `metadata` goes with the offsets of a transaction (KIP-447). A heartbeat or a join between
        two polls does not change `metadata`. Otherwise the offsets of polled records could be
        committed with a newer generation, although the partitions belong to another member by then.
        They could even be committed without a generation, and the broker does not check the member
        of such a commit."""
        self.metadata = self.identity

    def require_rejoin(self, reason: str) -> None:
        """Rejoin at the next opportunity, because the subscription, the topics or the group
        changed."""
        self.rejoin_needed = True
        self.rejoin_reason = reason

    def start_over(self, *, keep_member_id: bool = False) -> None:
        """Forget the generation, and the member id unless `keep_member_id`. The partitions are
        lost, not revoked. If a JoinGroup or SyncGroup is in flight, its response has no effect."""
        if self.generation_id != NO_GENERATION:
            self._generation_lost = True
        self.generation_id = NO_GENERATION
        if not keep_member_id:
            self.member_id = ""
        self.protocol_name = None
        self._apply(MemberEvent.RESET)
        self.require_rejoin(
            "the generation has ended"
            if keep_member_id
            else "the coordinator does not know this member"
        )

    def _refused(self, code: int) -> None:
        """Start over after a response with UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION. After the
        latter the member id may still be valid. With a new id, the group would wait for the old
        member (Java's `resetStateOnResponseError`)."""
        self.start_over(keep_member_id=code == ErrorCode.ILLEGAL_GENERATION)

    @property
    def generation_lost(self) -> bool:
        """Return True if a generation was lost, and `leaving_behind` has not returned its
        partitions yet."""
        return self._generation_lost

    def leaving_behind(
        self, owned: Iterable[TopicPartition], topics: Iterable[str]
    ) -> tuple[tuple[TopicPartition, ...], bool]:
        """Return the partitions to revoke before the join, and True if these partitions are lost
        already. For lost partitions the application gets `on_partitions_lost`.

        An eager member revokes all partitions. A cooperative member revokes the partitions of
        topics that it no longer subscribes to.
        """
        if self._generation_lost:
            self._generation_lost = False
            return tuple(sorted(owned)), True
        if self.cooperative:
            wanted = set(topics)
            return tuple(sorted(tp for tp in owned if tp.topic not in wanted)), False
        return tuple(sorted(owned)), False

    def join_request(
        self, topics: Iterable[str], owned: Iterable[TopicPartition], now_ms: float
    ) -> JoinGroupRequest:
        """Begin a join and return its request. `owned` are the partitions that the member keeps
        meanwhile (none for eager members)."""
        self._apply(MemberEvent.JOIN)
        self.rejoin_needed = False
        self._session_start_ms = now_ms
        reason, self.rejoin_reason = self.rejoin_reason, ""
        held = rows_by_topic(owned)
        protocols = []
        for name in self.config.strategies:
            subscription = ConsumerProtocolSubscription(
                topics=sorted(topics),
                user_data=ASSIGNORS[name].user_data(self.generation_id),
                owned_partitions=held,
                generation_id=self.generation_id,
                rack_id=self.config.rack_id or None,
            )
            metadata = consumer_protocol.encode_subscription(subscription)
            protocols.append(JoinGroupRequestProtocol(name=name, metadata=metadata))
        return JoinGroupRequest(
            group_id=self.config.group_id,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=self.config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=reason[:255] or None,
        )

    def joined(self, response: JoinGroupResponse) -> Reaction:
        """Take the response to a JoinGroup and return its meaning. After CONTINUE the next step is
        a SyncGroup. If this member is the leader (`is_leader`), it has the assignments. A response
        from before a `start_over` means a new round (Java's UnjoinedGroupException)."""
        outcome = reaction(ApiKey.JOIN_GROUP, response.error_code)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if self.state is MemberState.UNJOINED:
            return _stale(outcome)
        if outcome is Reaction.CONTINUE:
            if response.protocol_name not in self.config.strategies:
                raise KafkaError(
                    f"the group uses {response.protocol_name}, which was not offered",
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                )
            self._apply(MemberEvent.JOINED)
            self.member_id = response.member_id
            self.generation_id = response.generation_id
            self.protocol_name = response.protocol_name
        else:
            self._failed(outcome, response.error_code)
        return outcome

    def is_leader(self, response: JoinGroupResponse) -> bool:
        """Return True if this member is the group's leader. The leader computes the assignment,
        unless the response has `skip_assignment`: then the assignment from before the leader's
        restart stays (KIP-814)."""
        return response.leader == response.member_id

    def sync_request(
        self, assignments: Mapping[str, Iterable[TopicPartition]] | None = None
    ) -> SyncGroupRequest:
        """Return the SyncGroup request. The leader's request has the partitions of all members."""
        rows = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=consumer_protocol.encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=rows_by_topic(assigned))
                ),
            )
            for member_id, assigned in (assignments or {}).items()
        ]
        return SyncGroupRequest(
            group_id=self.config.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=rows,
        )

    def synced(
        self, response: SyncGroupResponse, now_ms: float
    ) -> tuple[Reaction, tuple[TopicPartition, ...]]:
        """Take the response to a SyncGroup. Return the reaction. With CONTINUE also return the
        partitions of this member. A response from before a `start_over` means a new round. Raises
        KafkaError for an unreadable assignment: the member is not stable then, and the caller calls
        `disconnected`."""
        outcome = reaction(ApiKey.SYNC_GROUP, response.error_code)
        if self.state is MemberState.UNJOINED:
            return _stale(outcome), ()
        if outcome is not Reaction.CONTINUE:
            self._failed(outcome, response.error_code)
            return outcome, ()
        assigned = own_assignment(self.config.group_id, response.assignment)
        self._apply(MemberEvent.SYNCED)
        self._last_heartbeat_ms = self._session_start_ms = now_ms
        return outcome, assigned

    def _failed(self, outcome: Reaction, code: int) -> None:
        if outcome is Reaction.START_OVER:
            self._refused(code)
        else:
            self._apply(MemberEvent.REJOIN)
            self.require_rejoin(f"the last join ended with: {outcome.value}")

    def disconnected(self) -> None:
        """Handle a JoinGroup or SyncGroup that failed without a response, or with a response that
        cannot be used. The member rejoins. Do nothing after a `start_over`."""
        if self.state is not MemberState.UNJOINED:
            self._failed(Reaction.FIND_COORDINATOR, ErrorCode.NETWORK_EXCEPTION)

    def changes(
        self, owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
    ) -> Changes:
        """Return the partitions to revoke and to add. A cooperative member that revokes partitions
        rejoins, so that other members can get them (KIP-429)."""
        before, after = set(owned), set(assigned)
        revoked = tuple(sorted(before - after))
        if revoked and self.cooperative:
            self.require_rejoin("partitions had to be revoked")
        return Changes(added=tuple(sorted(after - before)), revoked=revoked)

    # -- staying

    def polled(self, now_ms: float, *, waits: bool = False) -> None:
        """Record that the application polls, so that the member stays in the group. With `waits`
        the poll waits until the next call of `polled`, and the whole wait counts as polling: Java's
        client calls `pollHeartbeat` in each turn of its `poll`."""
        self._last_poll_ms = now_ms
        self._poll_waits = waits

    def poll_overdue(self, now_ms: float) -> bool:
        """Return True if the application has not polled for `max_poll_interval_ms` (KIP-62). The
        member then leaves the group."""
        idle_ms = 0 if self._poll_waits else now_ms - self._last_poll_ms
        return idle_ms > self.config.max_poll_interval_ms

    def session_expired(self, now_ms: float) -> bool:
        """Return True if this member got no response for a session timeout. The coordinator must
        have removed the member."""
        return now_ms - self._session_start_ms > self.config.session_timeout_ms

    def next_heartbeat_ms(self) -> float | None:
        """Return the time of the next heartbeat. Return None before the member is stable: a pending
        JoinGroup or SyncGroup keeps the member in the group."""
        if self.state is not MemberState.STABLE:
            return None
        return self._last_heartbeat_ms + self.config.heartbeat_interval_ms

    def heartbeat_request(self, now_ms: float) -> HeartbeatRequest:
        """Return the heartbeat to send now."""
        self._last_heartbeat_ms = now_ms
        return HeartbeatRequest(
            group_id=self.config.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
        )

    def heartbeat_answered(self, code: int, generation_id: int, now_ms: float) -> Reaction:
        """Take the response to a heartbeat of a member of `generation_id`, and return its meaning.
        An error of an earlier generation has no effect (CONTINUE)."""
        outcome = reaction(ApiKey.HEARTBEAT, code)
        if outcome is Reaction.CONTINUE:
            self._session_start_ms = now_ms
            return outcome
        if generation_id != self.generation_id or self.state is not MemberState.STABLE:
            return Reaction.CONTINUE
        if outcome is Reaction.REJOIN:
            self._session_start_ms = now_ms
            self.require_rejoin("the group is rebalancing")
        elif outcome is Reaction.START_OVER:
            self._refused(code)
        return outcome

    def commit_refused(self, code: int, sent: ConsumerGroupMetadata) -> int:
        """Take the error code of a commit that had the identity `sent`. Return the code for the
        application. The generation is lost only if it is still that of the commit.

        Source: OffsetCommitResponseHandler of Java's ConsumerCoordinator. Java sends no commit
        during a rebalance, and the application gets RebalanceInProgressException. Here a commit is
        sent until the response to JoinGroup. ILLEGAL_GENERATION while a JoinGroup is in flight says
        that the next generation has begun, so only the commit fails.
        """
        rebalancing = self.state in (MemberState.JOINING, MemberState.SYNCING)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE and sent == self.identity:
                self.require_rejoin("a commit was refused during a rebalance")
            return code
        if code not in _MEMBER_REFUSALS:
            return code
        if sent != self.identity:
            if rebalancing:
                return ErrorCode.REBALANCE_IN_PROGRESS
            # The id of the earlier generation is fenced, not the member.
            return ErrorCode.ILLEGAL_GENERATION if code == ErrorCode.FENCED_INSTANCE_ID else code
        if code == ErrorCode.FENCED_INSTANCE_ID:
            return code
        if code == ErrorCode.ILLEGAL_GENERATION and self.state is MemberState.JOINING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._refused(code)
        return code

    # -- leaving

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """Return the LeaveGroup request and forget the membership. Return None without a
        membership. Return None for a static member too, because the group keeps the member's place
        for its return (KIP-345)."""
        member_id, known = self.member_id, self.generation_id != NO_GENERATION or self.member_id
        self.start_over()
        if not known or self.config.group_instance_id is not None:
            return None
        return LeaveGroupRequest(
            group_id=self.config.group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason=reason)],
        )
