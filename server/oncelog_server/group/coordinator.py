"""The group coordinator of this broker. The coordinator passes requests to shards, and has one
timer for the deadlines of all shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.coordinator.routing import PartitionOf, partition_for
from oncelog_server.coordinator.runtime import ReplayAt, ShardRuntime, Work
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.history import Dismissal
from oncelog_server.group.shard import EFFECTS, GroupShard
from oncelog_server.group.views import GroupViews
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.slices import at_its_end
from oncelog_server.timers import Timer, Timers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.groups import GroupDetails

R = TypeVar("R")


class GroupCoordinator:
    """Passes requests to the shards of this broker. `partition_count` returns the number of
    partitions of `__consumer_offsets`, 0 before the topic is created. `partition_of` returns the
    partition of a group."""

    def __init__(
        self,
        *,
        partition_count: Callable[[], int],
        config: GroupConfig,
        new_member_id: Callable[[str], str],
        timers: Timers,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        partition_of: PartitionOf = partition_for,
        work: Work = at_its_end,
    ) -> None:
        self._partition_count = partition_count
        self._partition_of = partition_of
        self._timers = timers
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._timer: Timer | None = None
        self._due_ms: int | None = None
        self.runtime: ShardRuntime[GroupShard] = ShardRuntime(
            replay_at=ReplayAt.APPEND,
            new_shard=lambda index, epoch: GroupShard(config, new_member_id=new_member_id),
            effects=EFFECTS,
            on_loaded=self._on_loaded,
            on_unloaded=GroupShard.on_unloaded,
            wall_ms=wall_ms,
            work=work,
        )
        self.views = GroupViews(self.runtime)
        # By partition: the topics that were deleted since the load of the partition began. The
        # shard has to delete the offsets of these topics after the load.
        self._deleted_meanwhile: dict[int, set[str]] = {}

    # --- leadership

    def lead(self, partition: Partition) -> Deferred[None] | None:
        index = partition.topic_partition.partition
        if index not in self.runtime.loading:
            # Deletions that were noted for a failed load do not apply any more. The topics may
            # exist again, with offsets.
            self._deleted_meanwhile.pop(index, None)
        return self.runtime.lead(partition)

    def resign(self, index: int) -> None:
        self._deleted_meanwhile.pop(index, None)
        self.runtime.resign(index)

    def refuse(self, index: int, reason: str) -> None:
        """Refuse requests for this partition from now on, because its log cannot be used (see
        ShardRuntime.refuse)."""
        self.runtime.refuse(index, reason)

    def _on_loaded(self, index: int, shard: GroupShard) -> None:
        shard.on_loaded(self._monotonic_ms(), self._wall_ms())
        self._arm(shard)
        deleted = self._deleted_meanwhile.pop(index, None)
        if deleted is not None:
            for decision in shard.on_topics_deleted(frozenset(deleted)):
                self.runtime.run(index, decision)

    # --- requests

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Return the partition with the group's offsets. Raises Refused if the topic is not created
        yet."""
        count = self._partition_count()
        if count == 0:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return TopicPartition(CONSUMER_OFFSETS, self._partition_of(group_id, count))

    def log_of(self, group_id: str) -> Partition:
        """Return the partition for the group's transactional offsets. Raises Refused with the codes
        of `run`."""
        count = self._partition_count()
        if count == 0:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return self.runtime.partition(self._partition_of(group_id, count))

    def run(self, group_id: str, decide: Callable[[GroupShard], Decision[R]]) -> R | Deferred[R]:
        """Let the shard of a group decide. Raises Refused (NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE)."""
        count = self._partition_count()
        if count == 0:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        index = self._partition_of(group_id, count)
        shard = self.runtime.shard(index)
        if self.runtime.partition(index).offline is not None:
            # The state in memory may not be on disk, so no response may show it.
            raise Refused(ErrorCode.NOT_COORDINATOR)
        answer = self.runtime.run(index, decide(shard))
        self._arm(shard)
        return answer

    def describe(self, group_id: str) -> GroupDetails | Deferred[GroupDetails | None] | None:
        """Return the group in full. Return None if the group does not exist. Raises Refused with
        the codes of `run`."""
        return self.run(group_id, lambda shard: shard.describe_group(group_id))

    def live_generation(self, group_id: str) -> int | None:
        """Return the generation of a group with members. Return None if the group has no members,
        or is not coordinated here. Raises Refused (COORDINATOR_LOAD_IN_PROGRESS) while the group's
        shard is loaded."""
        count = self._partition_count()
        if count == 0:
            return None
        try:
            shard = self.runtime.shard(self._partition_of(group_id, count))
        except Refused as refused:
            if refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return None
        return shard.live_generation(group_id)

    def generation_here(self, group_id: str) -> tuple[int | None, int]:
        """Return the generation of a group with members, and the leader epoch of the group's
        partition. The generation is None if the group has no members. Raises Refused with the codes
        of `run`: with several brokers, another one may coordinate the group."""
        index = self.offsets_partition(group_id).partition
        shard = self.runtime.shard(index)
        return shard.live_generation(group_id), self.runtime.partition(index).leader_epoch

    def outdated(self, group_id: str, generation_id: int) -> Dismissal:
        """Return the reason why the group refuses a request of generation `generation_id`. Raises
        Refused with the codes of `run`."""
        count = self._partition_count()
        if count == 0:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        shard = self.runtime.shard(self._partition_of(group_id, count))
        return shard.outdated(group_id, generation_id)

    def concurrent_producers(self, request: TxnOffsetCommitRequest) -> frozenset[int]:
        """Return the other producers that commit offsets of the same group, for a partition of the
        request, in a transaction that is still open. Raises Refused with the codes of `run`."""
        count = self._partition_count()
        if count == 0:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        shard = self.runtime.shard(self._partition_of(request.group_id, count))
        return shard.concurrent_producers(request)

    def check_loaded(self) -> None:
        """Raise Refused (COORDINATOR_LOAD_IN_PROGRESS) while `views` is incomplete."""
        if self.runtime.is_loading:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def offsets_marker(self, index: int) -> Callable[[int, int, bool], None]:
        """Return the function that applies a marker after its append to partition `index` of
        `__consumer_offsets`. Raises Refused."""
        shard = self.runtime.shard(index)

        def appended(producer_id: int, producer_epoch: int, committed: bool) -> None:
            shard.replay_marker(producer_id, producer_epoch, committed=committed)

        return appended

    def follow(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        """Delete the offsets of deleted topics, so that they do not apply to a recreated topic with
        the same name."""
        if not delta.topics_deleted:
            return
        deleted = frozenset(topic.name for topic in delta.topics_deleted)
        for index in self.runtime.loading:
            self._deleted_meanwhile.setdefault(index, set()).update(deleted)
        for index, shard in self.runtime.shards():
            for decision in shard.on_topics_deleted(deleted):
                self.runtime.run(index, decision)

    # --- time

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, shard: GroupShard) -> None:
        due = shard.next_timer()
        if due is None or (self._due_ms is not None and self._due_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due
        delay_ms = max(due - self._monotonic_ms(), 0)
        self._timer = self._timers.call_later(delay_ms, self._expire)

    def _expire(self) -> None:
        self._timer = self._due_ms = None
        now_ms, wall_ms = self._monotonic_ms(), self._wall_ms()
        try:
            for index, shard in self.runtime.shards():
                for decide in shard.due(now_ms, wall_ms):
                    decision = decide()
                    if decision is not None:
                        self.runtime.run(index, decision)
        finally:
            for _, shard in self.runtime.shards():
                self._arm(shard)
