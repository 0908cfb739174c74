"""A consumer's membership in its group. The session carries out the decisions of `core.membership`.
As in the Java client, listeners run inside poll, so they never run concurrently with the
application. If poll has begun a rebalance, its JoinGroup and SyncGroup requests continue between
polls. Heartbeats are sent then, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from oncelog_client.core.assignors import ASSIGNORS
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.core.group_protocol import decode_members
from oncelog_client.core.membership import Membership, MembershipConfig, MemberState, Reaction
from oncelog_client.core.subscription import Subscription
from oncelog_client.errors import KafkaError, RetriableError, error_for
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.heartbeat import HeartbeatResponse
from oncelog_protocol.messages.join_group import JoinGroupResponse
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog_protocol.messages.sync_group import SyncGroupResponse

from .clock import monotonic_ms
from .cluster import Cluster, CoordinatorType
from .connections import JOIN_LANE
from .randomness import fraction

log = logging.getLogger(__name__)

# The response to JoinGroup comes when all members have joined, or when the rebalance timeout has
# passed. The request waits this much longer than the rebalance timeout.
_JOIN_GRACE_MS = 5_000

# Error code -> the number of failed rounds in a row that cause no delay before the next round.
# A new member gets its id with MEMBER_ID_REQUIRED, and rejoins with this id. A member also rejoins
# if a rebalance begins before its SyncGroup. In both cases the other members wait for the rejoin.
_FREE_ROUNDS: Final[dict[int, int]] = {
    ErrorCode.MEMBER_ID_REQUIRED: 1,
    ErrorCode.REBALANCE_IN_PROGRESS: 2,
}

# Maximum wait for the response to LeaveGroup.
_LEAVE_S = 2.0


class RebalanceListener:
    """The callbacks of a rebalance. A subclass overrides the needed callbacks, with coroutine
    functions or plain functions.

    The callbacks are awaited inside `poll`, and may commit or change positions. `poll` raises their
    exceptions. After an exception the partitions are revoked or assigned nevertheless, and the next
    poll continues the rebalance.
    """

    async def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        """Handle partitions that were assigned in this generation of the group."""

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Handle partitions that are about to be revoked: commit the processed offsets."""

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Handle partitions that may already belong to another member. Their offsets cannot be
        committed."""
        await _finished(self.on_partitions_revoked(partitions))


async def _finished(called: object) -> None:
    """Wait for a callback. A plain function, not a coroutine function, has finished already."""
    if isinstance(called, Awaitable):
        await called


class GroupSession:
    """The consumer's membership in its group."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        *,
        wake: Callable[[], None],
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        assert config.group_id is not None
        self.membership = Membership(_membership_config(config), monotonic_ms())
        self.listener = RebalanceListener()
        self._group_id = config.group_id
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._wake = wake
        self._commit = commit
        self._round: asyncio.Task[tuple[TopicPartition, ...] | None] | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._assigned_counts: dict[str, int] | None = None
        self._failure: KafkaError | None = None
        # The error of subscribed topics in the last metadata. `poll` raises it once.
        self._refusal: KafkaError | None = None
        self._failed_rounds = 0
        # The monotonic time before which no round begins.
        self._next_round_ms = 0.0
        self._heartbeat = asyncio.Event()

    @property
    def needs_attention(self) -> bool:
        """Return True if poll has to handle the group before it returns records."""
        membership = self.membership
        return (
            self._failure is not None
            or self._refusal is not None
            or self._round is not None
            or membership.rejoin_needed
            or membership.state is not MemberState.STABLE
        )

    def subscribed(self, listener: RebalanceListener) -> None:
        """Take over a new subscription and its listener: apply a pattern to the known topics, and
        let the next poll rejoin."""
        self.listener = listener
        self._subscription.match(self._topics_to_match())
        self.membership.require_rejoin("the subscription changed")

    # -- inside poll

    async def poll(self) -> None:
        """Advance the rebalance as far as possible without waiting for other members.

        Raises the errors that make membership impossible, the errors of subscribed topics, and the
        errors of listeners.
        """
        self._raise_failure()
        while self.needs_attention:
            if self._round is None:
                await self._prepare()
                self._round = asyncio.ensure_future(self._run_round())
                self._round.add_done_callback(self._round_done)
                self._cluster.end_with_client(self._round)
            if not self._round.done():
                return
            finished, self._round = self._round, None
            assigned = finished.result()
            # A heartbeat may have ended the generation meanwhile.
            if assigned is not None and self.membership.state is MemberState.STABLE:
                await self._complete(assigned)

    def _round_done(self, finished: asyncio.Future[tuple[TopicPartition, ...] | None]) -> None:
        if not finished.cancelled():
            # The next poll raises the error. If the consumer is closed without another poll, this
            # call prevents a warning of asyncio about the error.
            finished.exception()
        # From now on heartbeats keep the member in the group, even if the next poll is late.
        self._heartbeat.set()
        self._wake()

    async def _prepare(self) -> None:
        subscription = self._subscription
        await self._commit()
        while True:
            owned = subscription.partitions
            given_up, lost = self.membership.leaving_behind(owned, subscription.topics)
            await self._give_up(given_up, lost=lost)
            # A commit of the listener may have ended the generation: the rest is lost, too.
            if not self.membership.generation_lost:
                return

    async def _give_up(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        if not partitions:
            return
        subscription = self._subscription
        for partition in partitions:
            subscription[partition].revoking = True
        try:
            if lost:
                await _finished(self.listener.on_partitions_lost(partitions))
            else:
                await _finished(self.listener.on_partitions_revoked(partitions))
        finally:
            subscription.set_partitions(
                state.partition for state in subscription.assigned() if not state.revoking
            )

    async def _complete(self, assigned: Sequence[TopicPartition]) -> None:
        subscription = self._subscription
        self.membership.refresh_metadata()
        # A commit of the listener may end the generation before the second callback.
        generation_id = self.membership.generation_id
        changes = self.membership.changes(subscription.partitions, assigned)
        try:
            await self._give_up(changes.revoked, lost=False)
        finally:
            subscription.set_partitions(assigned)
            if self._joined_topics != subscription.topics:
                self.membership.require_rejoin("the subscription changed while joining")
            await _finished(self.listener.on_partitions_assigned(changes.added, generation_id))

    # -- between polls

    async def _run_round(self) -> tuple[TopicPartition, ...] | None:
        """Run one round, after the pause that the error of an earlier round has left. Return the
        assigned partitions, or None if a new round is needed. Raises an error for the application
        at once: the pause comes before the next round. Java's client has no such pause, so an
        application that polls again after each error sends JoinGroup without a limit."""
        pause_ms = self._next_round_ms - monotonic_ms()
        if pause_ms > 0:
            await asyncio.sleep(pause_ms / 1000)
        try:
            return await self._join_and_sync()
        except Exception:
            self._next_round_ms = monotonic_ms() + self._round_failed()
            raise

    async def _join_and_sync(self) -> tuple[TopicPartition, ...] | None:
        """Run one round of join and sync. Return None if a new round is needed."""
        membership = self.membership
        timeout_ms = self._config.max_poll_interval_ms + _JOIN_GRACE_MS
        topics = self._joined_topics = self._subscription.topics
        owned = self._subscription.partitions if membership.cooperative else ()
        request = membership.join_request(topics, owned, monotonic_ms())
        try:
            joined = await self._cluster.call_coordinator(
                CoordinatorType.GROUP,
                self._group_id,
                request,
                JoinGroupResponse,
                lane=JOIN_LANE,
                timeout_ms=timeout_ms,
            )
            reaction = membership.joined(joined)
            assignments = None
            if reaction is Reaction.CONTINUE:
                assignments = await self._assignments(joined)
            # A refused commit may have ended the generation meanwhile.
            if reaction is Reaction.CONTINUE and membership.state is MemberState.SYNCING:
                sync = membership.sync_request(assignments)
                synced = await self._cluster.call_coordinator(
                    CoordinatorType.GROUP,
                    self._group_id,
                    sync,
                    SyncGroupResponse,
                    lane=JOIN_LANE,
                    timeout_ms=timeout_ms,
                )
                reaction, assigned = membership.synced(synced, monotonic_ms())
                if reaction is Reaction.CONTINUE:
                    self._failed_rounds = 0
                    return assigned
                code = synced.error_code
            else:
                code = joined.error_code
        except RetriableError:
            membership.disconnected()
            await self._pause()
            return None
        except Exception:
            # `poll` raises the error once. The member must be able to join after any error.
            membership.disconnected()
            raise
        await self._react(reaction, code)
        return None

    async def _react(self, reaction: Reaction, code: int) -> None:
        if reaction is Reaction.FATAL:
            raise error_for(code, f"group {self._group_id}")
        if reaction is Reaction.FIND_COORDINATOR or code in (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ):
            self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)
        await self._pause(free=_FREE_ROUNDS.get(code, 0))

    async def _pause(self, *, free: int = 0) -> None:
        """Wait before the next round. The wait grows with each failure in a row. The first `free`
        failures cause no wait."""
        await asyncio.sleep(self._round_failed(free=free) / 1000)

    def _round_failed(self, *, free: int = 0) -> float:
        """Count a failed round, and return the wait before the next round in ms."""
        self._failed_rounds += 1
        return self._cluster.backoff.delay_ms(self._failed_rounds - free, fraction())

    async def _assignments(
        self, joined: JoinGroupResponse
    ) -> dict[str, list[TopicPartition]] | None:
        """Return the partitions of all members if this member is the leader. Return None for other
        members, and if the response says to skip the assignment."""
        self._assigned_counts = None
        self._subscription.group_topics = frozenset()
        if not self.membership.is_leader(joined):
            return None
        members = decode_members(joined)
        topics = frozenset[str]().union(*(member.topics for member in members.values()))
        self._subscription.group_topics = topics
        if len(self._cluster.metadata.partition_counts(topics)) < len(topics):
            await self._cluster.refresh()
        counts = self._cluster.metadata.partition_counts(topics)
        self._assigned_counts = counts
        if joined.skip_assignment:
            return None
        assert self.membership.protocol_name is not None
        return ASSIGNORS[self.membership.protocol_name].assign(counts, members)

    def metadata_changed(self) -> None:
        """Rejoin if other topics match the pattern, or, as the leader, if the topics of any member
        have more partitions (ConsumerCoordinator.rejoinNeededOrPending of Java). Let `poll` raise
        the error of subscribed topics that the broker refuses."""
        self._refusal = self._cluster.metadata.refusal(self._subscription.topics)
        changed = self._subscription.match(self._topics_to_match())
        if changed:
            self.membership.require_rejoin("other topics match the pattern")
        if self._assigned_counts is not None and self.membership.state is MemberState.STABLE:
            topics = self._subscription.topics | self._subscription.group_topics
            counts = self._cluster.metadata.partition_counts(topics)
            known = {t: n for t, n in self._assigned_counts.items() if t in counts}
            if {t: n for t, n in counts.items() if known.get(t) != n}:
                self.membership.require_rejoin("the partitions of the topics changed")
        if self.needs_attention:
            self._wake()

    def _topics_to_match(self) -> list[str]:
        return [
            topic.name
            for topic in self._cluster.metadata.topics.values()
            if topic.usable and not (topic.is_internal and self._config.exclude_internal_topics)
        ]

    async def heartbeats(self) -> None:
        """Send heartbeats until cancelled."""
        membership = self.membership
        while True:
            self._heartbeat.clear()
            due_ms = membership.next_heartbeat_ms()
            delay = None if due_ms is None else max(due_ms - monotonic_ms(), 0) / 1000
            try:
                async with asyncio.timeout(delay):
                    await self._heartbeat.wait()
                continue
            except TimeoutError:
                pass
            if membership.state is not MemberState.STABLE:
                continue
            now_ms = monotonic_ms()
            if membership.poll_overdue(now_ms):
                log.warning(
                    "leaving group %s: no poll for max_poll_interval_ms (%d)",
                    self._group_id,
                    self._config.max_poll_interval_ms,
                )
                request = membership.leave_request("the application does not poll")
                self._wake()
                await self._send_leave(request)
                continue
            if membership.session_expired(now_ms):
                self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)
            await self._beat(now_ms)

    async def _beat(self, now_ms: float) -> None:
        membership = self.membership
        generation_id = membership.generation_id
        code: int = ErrorCode.NETWORK_EXCEPTION
        try:
            response = await self._cluster.call_coordinator(
                CoordinatorType.GROUP,
                self._group_id,
                membership.heartbeat_request(now_ms),
                HeartbeatResponse,
            )
            code = response.error_code
        except RetriableError:
            # The next heartbeat, one interval later, is the retry.
            pass
        except KafkaError as error:
            self._failure = error
        reaction = membership.heartbeat_answered(code, generation_id, monotonic_ms())
        if reaction is Reaction.FIND_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)
        elif reaction is Reaction.FATAL:
            self._failure = error_for(code, f"group {self._group_id}")
        if self.needs_attention:
            self._wake()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure or self._refusal, None
        self._refusal = None
        if failure is not None:
            raise failure

    # -- leaving

    async def leave(self, reason: str) -> None:
        """Revoke the partitions and leave the group, if the coordinator can be reached."""
        try:
            if self._round is not None:
                ended, self._round = self._round, None
                ended.cancel()
                await asyncio.wait({ended})
                if self.membership.state is not MemberState.UNJOINED:
                    self.membership.start_over(keep_member_id=True)
            if self.membership.generation_id >= 0:
                await self._commit()
            lost = self.membership.state is not MemberState.STABLE
            await self._give_up(tuple(sorted(self._subscription.partitions)), lost=lost)
        finally:
            request = self.membership.leave_request(reason)
            # The application itself leaves. So `membership.metadata` loses its generation now. If a
            # generation is lost between two polls, `membership.metadata` keeps it.
            self.membership.refresh_metadata()
            await self._send_leave(request)

    async def _send_leave(self, request: LeaveGroupRequest | None) -> None:
        """Send LeaveGroup even after the caller's deadline. Otherwise the other members would wait
        for a session timeout."""
        if request is None:
            return
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._cluster.call_coordinator(
                    CoordinatorType.GROUP, self._group_id, request, LeaveGroupResponse
                )
        except (KafkaError, TimeoutError) as error:
            log.debug("leaving group %s: %s", self._group_id, error)


def _membership_config(config: ConsumerConfig) -> MembershipConfig:
    assert config.group_id is not None
    return MembershipConfig(
        group_id=config.group_id,
        group_instance_id=config.group_instance_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        strategies=config.partition_assignment_strategy,
        rack_id=config.client_rack,
    )
