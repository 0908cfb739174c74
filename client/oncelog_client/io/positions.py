"""Positions of a consumer: committed offsets, resets, and commits as a member of the group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from oncelog_client.core.backoff import Pauses
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.core.membership import Membership, MemberState
from oncelog_client.core.offset_reset import OffsetReset, reset_duration_ms
from oncelog_client.core.subscription import Assigned, Subscription
from oncelog_client.errors import (
    CommitFailedError,
    FencedInstanceError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    RebalanceInProgressError,
    RetriableError,
    error_for,
)
from oncelog_client.values import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from oncelog_protocol.errors import ErrorCode

from .clock import monotonic_ms, wall_ms
from .cluster import Cluster
from .group_offsets import ask_offsets, commit_offsets, fetch_offsets
from .log_offsets import EARLIEST, LATEST, ask_leaders, name_partitions
from .randomness import fraction

# How long a seek waits for some leaders when it has the positions of others. A leader that has just
# changed needs less, so that the end of a partition is nearly always its end during the seek.
_MOMENT_S: Final = 1.0
_RESETS: Final[dict[OffsetReset, int]] = {"earliest": EARLIEST, "latest": LATEST}


def _timestamp_of(reset: OffsetReset) -> int:
    """Return the timestamp that ListOffsets has for this reset, in ms since 1970."""
    duration_ms = reset_duration_ms(reset)
    if duration_ms is None:
        return _RESETS[reset]
    # In the protocol, negative timestamps have other meanings.
    return max(wall_ms() - duration_ms, 0)


class Positions:
    """The positions of a subscription. `membership` is set for a consumer with a group."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        on_news: Callable[[], None],
    ) -> None:
        self.membership: Membership | None = None
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._on_news = on_news
        self._looking: set[Assigned] = set()
        self._pauses: Pauses[TopicPartition] = Pauses(cluster.backoff)
        self._failure: KafkaError | None = None

    # -- finding

    def find_soon(self) -> None:
        """Begin to find missing positions in the background, so that a partition without a leader
        does not block the others. `on_news` is called for each position that is found, and at the
        end of an attempt. If an attempt fails with a retriable error, it ends only after a
        back-off, and the next call of `find_soon` makes another attempt."""
        states = [s for s in self._subscription.without_position() if s not in self._looking]
        if states:
            self._looking.update(states)
            self._cluster.spawn(self._look(states))

    def raise_failure(self) -> None:
        """Raise the error with which the background search ended, if no retry resolves it and a
        partition still has no position. Each error is raised once."""
        failure, self._failure = self._failure, None
        if failure is not None and any(self._subscription.without_position()):
            raise failure

    async def _look(self, states: Sequence[Assigned]) -> None:
        try:
            await self._attempt(states)
            for state in states:
                self._pauses.succeeded(state.partition)
        except RetriableError:
            now_ms = monotonic_ms()
            until_ms = max(
                self._pauses.failed(state.partition, now_ms, fraction()) for state in states
            )
            await asyncio.sleep((until_ms - now_ms) / 1000)
        except KafkaError as error:
            self._failure = error
        finally:
            self._looking.difference_update(states)
        self._on_news()

    async def find(self, states: Iterable[Assigned], timeout_ms: float) -> None:
        """Find the positions of the `states` without a position. Raises NoOffsetForPartitionError,
        an error of the brokers, or RetriableError when time is up."""
        wanted = list(states)
        await self._retry(lambda: self._attempt(wanted), wanted, timeout_ms)

    async def _retry(
        self, attempt: Callable[[], Awaitable[None]], wanted: list[Assigned], timeout_ms: float
    ) -> None:
        try:
            await self._cluster.retry(attempt, timeout_ms)
        except RetriableError as error:
            missing = [state.partition for state in wanted if state.position is None]
            name_partitions(self._cluster, error, missing)
            raise

    async def find_served(self, states: Iterable[Assigned], timeout_ms: float) -> None:
        """Find the positions as `find` does. If some partitions have their positions, do not wait
        for offline partitions, and for the others only a moment: `find_soon` finds their positions
        when their leaders respond. Kafka's consumer moves its positions in `poll`, so that there a
        leader that does not respond delays no other partition."""
        wanted = list(states)

        async def attempt() -> None:
            try:
                await self._attempt(wanted)
            except RetriableError:
                missing = [state for state in wanted if state.position is None]
                if len(missing) == len(wanted) or not all(map(self._is_offline, missing)):
                    raise

        def some_are_found() -> bool:
            return any(state.position is not None for state in wanted)

        search = asyncio.ensure_future(self._retry(attempt, wanted, timeout_ms))
        try:
            while not search.done():
                await asyncio.wait({search}, timeout=_MOMENT_S)
                if some_are_found() and not search.done():
                    return
            await search
        except RetriableError:
            if not some_are_found():
                raise
        finally:
            search.cancel()
            await asyncio.wait({search})

    def _is_offline(self, state: Assigned) -> bool:
        """Return True if no broker leads the partition, because brokers cannot use its log. A new
        topic has no leaders for a moment either, but no broker that cannot use the log."""
        info = self._cluster.metadata.partition(state.partition)
        return info is not None and info.leader is None and bool(info.offline_replicas)

    async def _attempt(self, states: Iterable[Assigned]) -> None:
        """Make one attempt to find missing positions: committed offsets first, then
        `auto_offset_reset`.

        Skip a partition that was revoked meanwhile, or got a position by a seek.
        """
        asked = {state: state.jumps for state in states if state.position is None}
        await self._take_committed([state for state in asked if state.reset is None])
        timestamps: dict[TopicPartition, int] = {}
        homeless: Assigned | None = None
        for state in [state for state, jumps in asked.items() if self._waits(state, jumps)]:
            reset = state.reset or self._config.auto_offset_reset
            if reset == "none":
                homeless = state
            else:
                state.reset = reset
                timestamps[state.partition] = _timestamp_of(reset)
        if timestamps:
            await self._apply_resets(asked, timestamps)
        if homeless is not None:
            raise NoOffsetForPartitionError(
                f"{homeless.partition} has no committed offset: seek, or set auto_offset_reset to "
                "earliest or latest"
            )

    def _waits(self, state: Assigned, jumps: int) -> bool:
        return (
            self._subscription.get(state.partition) is state
            and state.position is None
            and state.jumps == jumps
        )

    async def _take_committed(self, states: Iterable[Assigned]) -> None:
        jumps = {state: state.jumps for state in states}
        if not jumps or self._config.group_id is None:
            return
        offsets = await ask_offsets(
            self._cluster,
            self._config.group_id,
            [state.partition for state in jumps],
            require_stable=self._config.read_committed,
        )
        for state, before in jumps.items():
            offset = offsets.get(state.partition)
            if offset is not None and self._waits(state, before) and state.reset is None:
                self._found(state, offset.offset, offset.known_epoch)

    async def _apply_resets(
        self, asked: Mapping[Assigned, int], timestamps: Mapping[TopicPartition, int]
    ) -> None:
        states = {state.partition: state for state in asked}

        def found(partition: TopicPartition, response: OffsetAndTimestamp | None) -> None:
            state = states[partition]
            if response is not None and self._waits(state, asked[state]):
                self._found(state, response.offset, -1)

        await ask_leaders(
            self._cluster,
            timestamps,
            found,
            read_committed=self._config.read_committed,
            or_end=True,
        )
        for partition in timestamps:
            if self._waits(states[partition], asked[states[partition]]):
                raise RetriableError(f"no offset for {partition}", ErrorCode.OFFSET_NOT_AVAILABLE)

    def _found(self, state: Assigned, offset: int, leader_epoch: int) -> None:
        state.jump(offset, leader_epoch)
        self._looking.discard(state)
        self._on_news()

    # -- committing

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the current position of each partition that has one, for a commit."""
        return {
            partition: OffsetAndMetadata(
                state.position, "", None if state.leader_epoch < 0 else state.leader_epoch
            )
            for partition, state in self._subscription.consumed().items()
            if state.position is not None
        }

    async def commit_quietly(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
    ) -> None:
        """Commit. A failure is ignored, because the next interval or the rebalance commits
        again."""
        with suppress(KafkaError):
            await self.commit(offsets, timeout_ms)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float | None = None
    ) -> None:
        """Commit the offsets of the *next* records to read, within `default_api_timeout_ms` unless
        `timeout_ms` is given. Raises the errors of `Consumer.commit`."""
        membership = self.membership
        if membership is None:
            raise IllegalStateError("commit needs a group: pass group_id=… to Consumer")
        if not offsets:
            return
        group = membership.identity
        if not self._subscription.uses_group:
            group = ConsumerGroupMetadata(group.group_id)
        elif group.generation_id < 0:
            raise CommitFailedError(
                f"this consumer is not a member of group {group.group_id} (any more), and its "
                "partitions may be another member's: poll to join again"
            )
        elif membership.state is MemberState.SYNCING:
            # The request would have the next generation, although the offsets belong to the last
            # assignment. The coordinator refuses it while it waits for the leader's assignment
            # (ConsumerCoordinator.sendOffsetCommitRequest of Java sends none, too).
            raise RebalanceInProgressError(
                f"group {group.group_id} is in a rebalance: poll, then commit what is still "
                "assigned"
            )
        if timeout_ms is None:
            timeout_ms = self._config.default_api_timeout_ms
        try:
            await commit_offsets(self._cluster, group, offsets, timeout_ms)
        except (CommitFailedError, FencedInstanceError, RebalanceInProgressError) as error:
            if group.generation_id < 0:
                raise
            code = membership.commit_refused(error.code, group)
            if code == error.code:
                raise
            message = (
                f"group {group.group_id} refused the commit of generation {group.generation_id}: "
                "poll, then commit what is still assigned"
            )
            raise error_for(code, message) from error

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets. A partition without an offset is left out."""
        if self._config.group_id is None:
            raise IllegalStateError("committed needs a group: pass group_id=… to Consumer")
        return await fetch_offsets(
            self._cluster,
            self._config.group_id,
            partitions,
            timeout_ms,
            require_stable=self._config.read_committed,
        )
