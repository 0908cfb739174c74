"""Where a consumer goes on: committed offsets, resets, and commits as the member it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from .clock import monotonic_ms
from .cluster import Cluster
from .config import ConsumerConfig, OffsetReset
from .errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    RebalanceInProgressError,
)
from .group_offsets import commit_offsets, fetch_offsets
from .log_offsets import EARLIEST, LATEST, list_offsets
from .membership import Membership
from .subscription import Assigned, Subscription
from .values import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_RESETS: Final[dict[OffsetReset, int]] = {"earliest": EARLIEST, "latest": LATEST}


class Positions:
    """The positions of a subscription; `membership` is set for a consumer with a group."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, subscription: Subscription
    ) -> None:
        self.membership: Membership | None = None
        self._cluster = cluster
        self._config = config
        self._subscription = subscription

    async def find(self, timeout_ms: float) -> None:
        """Committed offsets first, then `auto_offset_reset`, for partitions without a position."""
        deadline_ms = monotonic_ms() + timeout_ms
        states = self._subscription.without_position()
        committed = [state for state in states if state.reset is None]
        if committed and self._config.group_id is not None:
            jumps = {state: state.jumps for state in committed}
            offsets = await self.committed([state.partition for state in committed], timeout_ms)
            for state in committed:
                offset = offsets.get(state.partition)
                if offset is not None and state.jumps == jumps[state] and state.reset is None:
                    state.jump(offset.offset, offset.known_epoch)
        resets: dict[Assigned, int] = {}
        for state in states:
            if state.position is None:
                reset = state.reset or self._config.auto_offset_reset
                if reset == "none":
                    raise NoOffsetForPartitionError(str(state.partition))
                state.reset = reset
                resets[state] = _RESETS[reset]
        if resets:
            await self._apply_resets(resets, max(deadline_ms - monotonic_ms(), 0))

    async def _apply_resets(self, resets: Mapping[Assigned, int], timeout_ms: float) -> None:
        jumps = {state: state.jumps for state in resets}
        found = await list_offsets(
            self._cluster,
            {state.partition: timestamp for state, timestamp in resets.items()},
            timeout_ms,
            read_committed=self._config.read_committed,
        )
        for state in resets:
            answer = found.get(state.partition)
            if answer is not None and state.jumps == jumps[state]:
                state.jump(answer.offset, -1)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every position as it is now, to be committed."""
        return {
            partition: OffsetAndMetadata(
                state.position, "", None if state.leader_epoch < 0 else state.leader_epoch
            )
            for partition, state in self._subscription.consumed().items()
            if state.position is not None
        }

    async def commit_quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit where a failure is mended by the next interval, or the rebalance."""
        with suppress(KafkaError):
            await self.commit(offsets)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float | None = None
    ) -> None:
        """Commit the offsets of the *next* records to read, within `default_api_timeout_ms` unless
        told otherwise. Raises as `Consumer.commit`."""
        membership = self.membership
        if membership is None:
            raise IllegalStateError("committing needs a group_id")
        if not offsets:
            return
        group = membership.metadata
        if not self._subscription.uses_group:
            group = ConsumerGroupMetadata(group.group_id)
        elif group.generation_id < 0:
            raise CommitFailedError("this consumer is not a member of its group (any more)")
        if timeout_ms is None:
            timeout_ms = self._config.default_api_timeout_ms
        try:
            await commit_offsets(self._cluster, group, offsets, timeout_ms)
        except RebalanceInProgressError:
            membership.require_rejoin("a commit was refused during a rebalance")
            raise
        except CommitFailedError:
            if membership.metadata == group and self._subscription.uses_group:
                membership.start_over()
            raise

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets, those partitions without one left out."""
        if self._config.group_id is None:
            raise IllegalStateError("committed offsets need a group_id")
        return await fetch_offsets(
            self._cluster,
            self._config.group_id,
            partitions,
            timeout_ms,
            require_stable=self._config.read_committed,
        )
