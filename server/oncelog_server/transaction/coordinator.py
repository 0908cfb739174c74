"""The transaction coordinator of this broker. The coordinator passes commands to shards, and
`completion.py` completes decided transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import PartitionOf, partition_for
from oncelog_server.coordinator.runtime import ReplayAt, ShardRuntime, Work
from oncelog_server.coordinator.shard import EffectRow
from oncelog_server.deferred import Deferred
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.slices import at_its_end
from oncelog_server.timers import Timers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.add_partitions import AddPartitions, decide_add_partitions
from oncelog_server.transaction.commands.end_txn import EndTxn, decide_end_txn
from oncelog_server.transaction.commands.fencing import decide_overdue
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
)
from oncelog_server.transaction.completion import Completion, Leaders
from oncelog_server.transaction.effects import CompleteLater, WriteMarkers
from oncelog_server.transaction.fences import Fences, Reason
from oncelog_server.transaction.grouped.refusals import refuse_in_group, refuse_outdated
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import NO_PRODUCER_ID
from oncelog_server.transaction.results import ILLEGAL_GENERATION, TransactionResult
from oncelog_server.transaction.shard import (
    EFFECTS,
    LiveTransaction,
    TransactionShard,
    is_overdue,
)
from oncelog_server.transaction.views import TransactionViews

if TYPE_CHECKING:
    from oncelog_server.transaction.grouped.coordinator import GroupTransactions
    from oncelog_server.transaction.grouped.owners import Owners
    from oncelog_server.transaction.operator_markers import OperatorMarkers

Answer = TransactionResult | Deferred[TransactionResult]


class TransactionCoordinator:
    """Passes commands to shards and completes decided transactions. `partition_count` returns the
    number of partitions of `__transaction_state`, 0 before the topic is created. `partition_of`
    returns the partition of a transactional id or a group. `new_producer_id` returns an unused
    producer id of a principal, or raises Refused. `owner_of_id` returns the principal of a producer
    id. Principals are texts, empty if the id belongs to every principal. `on_stray_markers` is
    called after the load of a partition of `__transaction_state` that contains markers, which do
    not belong there. It gets the partition's index and the number of markers. The coordinator
    ignores these markers."""

    def __init__(
        self,
        *,
        partition_count: Callable[[], int],
        leaders: Leaders,
        new_producer_id: Callable[[str], int],
        timers: Timers,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        max_timeout_ms: int,
        fences: Fences | None = None,
        is_given_id: Callable[[int], bool] = lambda producer_id: True,
        owner_of_id: Callable[[int], str] = lambda producer_id: "",
        on_stray_markers: Callable[[int, int], None] = lambda index, count: None,
        partition_of: PartitionOf = partition_for,
        work: Work = at_its_end,
    ) -> None:
        self._partition_count = partition_count
        self._partition_of = partition_of
        self._leaders = leaders
        self.new_producer_id = new_producer_id
        # None while this broker has all shards. With others, an id with a group may be in a shard
        # of another broker.
        self._owners: Owners | None = None
        # True if every id with a group has a pointer. If a single broker wrote the data directory,
        # the missing pointers are written before the first id is served.
        self._has_pointers = False
        self._owner_of_id = owner_of_id
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._timers = timers
        self._on_stray_markers = on_stray_markers
        # Number of aborted and of committed transactions with partitions, since the start.
        self.decided = [0, 0]
        # Transactional ids with a consumer group, in all shards of this coordinator.
        self._grouped: Counter[str] = Counter()
        # Fences and refusals, by cause.
        self.fences = Fences() if fences is None else fences
        self._completion = self._new_completion(timers, work)
        new_shard = partial(
            TransactionShard,
            max_timeout_ms=max_timeout_ms,
            grouped=self._grouped,
            fences=self.fences,
            is_given_id=is_given_id,
            owner_of_id=owner_of_id,
        )
        self.runtime: ShardRuntime[TransactionShard] = ShardRuntime(
            replay_at=ReplayAt.COMMIT,
            new_shard=lambda index, epoch: new_shard(epoch, index=index),
            on_loaded=self._on_loaded,
            on_unloaded=TransactionShard.on_unloaded,
            effects={
                **EFFECTS,
                WriteMarkers: EffectRow(committed=self._completion.write_markers),
                CompleteLater: EffectRow(failed=self._completion.complete_later),
            },
            wall_ms=wall_ms,
            work=work,
        )

    def _new_completion(self, timers: Timers, work: Work) -> Completion:
        return Completion(
            self._leaders,
            run=lambda index, decision: self.runtime.run(index, decision),
            is_in_service=lambda index, shard: self.runtime.is_in_service(index, shard),
            timers=timers,
            wall_ms=self._wall_ms,
            work=work,
            decided=self.decided,
        )

    @cached_property
    def views(self) -> TransactionViews:
        return TransactionViews(
            self.runtime,
            self.fences,
            self.decided,
            find=self.find,
            has_leader=lambda partition: self._leaders.marker_sender(partition) is not None,
            has_all_shards=lambda: len(self.runtime) == self._partition_count(),
            monotonic_ms=self._monotonic_ms,
        )

    @cached_property
    def _groups(self) -> GroupTransactions:
        # Most brokers never need this module, and the import would delay every start.
        from oncelog_server.transaction.grouped.coordinator import GroupTransactions

        return GroupTransactions(
            self.runtime,
            owner=self.owner,
            new_producer_id=self.new_producer_id,
            next_producer_id=self.next_producer_id,
            wall_ms=self._wall_ms,
            owners=self._owners,
        )

    def share_groups(self, owners: Owners) -> None:
        """Let other brokers coordinate some of the groups. It is called before the first shard is
        led. `owners` has the shards of the whole cluster."""
        self._owners = owners

    @cached_property
    def operator_markers(self) -> OperatorMarkers:
        # Most brokers never need this module.
        from oncelog_server.transaction.operator_markers import OperatorMarkers

        return OperatorMarkers(self.runtime, self.fences, self.decided, self._wall_ms)

    # --- leadership

    def lead(self, partition: Partition) -> Deferred[None] | None:
        return self.runtime.lead(partition)

    def resign(self, index: int) -> None:
        self.runtime.resign(index)

    def refuse(self, index: int, reason: str) -> None:
        """Refuse requests for this partition from now on, because its log cannot be used (see
        ShardRuntime.refuse)."""
        self.runtime.refuse(index, reason)

    def _on_loaded(self, index: int, shard: TransactionShard) -> None:
        shard.on_loaded(now_ms=self._monotonic_ms(), wall_ms=self._wall_ms())
        if shard.stray_markers:
            self._on_stray_markers(index, shard.stray_markers)
        for work in shard.marker_works():
            # Later turns of the loop write the markers, because this broker may still have to take
            # over other partitions.
            self._completion.finish_later(shard, work, 0)
        if self._owners is not None and not self._has_pointers:
            # Do not wait for the first request, because a shard may move to another broker before
            # it.
            self._timers.call_soon(self._point_early)

    def _point_early(self) -> None:
        """Begin to write the missing pointers before an id is requested."""
        if not self._has_pointers and not self.runtime.is_loading:
            self._are_pointed()

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Retry markers at once if leaders or brokers have changed."""
        if delta.partitions or delta.brokers_changed:
            self._completion.retry_now()

    # --- look-ups

    def find(self, transactional_id: str) -> LiveTransaction:
        """Return the transaction of an id. Raises Refused as `owner` does, and with
        TRANSACTIONAL_ID_NOT_FOUND for an unknown id."""
        return self._find(transactional_id)[1]

    def _find(self, transactional_id: str) -> tuple[TransactionShard, LiveTransaction]:
        """Return the shard that has the transactional id, and the transaction of the id. The shard
        is that of the id, or that of the id's group. Raises Refused as `find` does."""
        if transactional_id not in self._grouped:
            shards = [self.owner(transactional_id)[1]]
        else:
            if self._owners is None:
                self.owner(transactional_id)
            shards = [shard for _, shard in self.runtime.shards()]
        for shard in shards:
            live = shard.get(transactional_id)
            if live is not None and live.is_listed:
                return shard, live
        self.owner(transactional_id)
        raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def coordinator_of(self, key: str) -> int | None:
        """Return the id of the broker that coordinates `key`, a transactional id or a group id. It
        is below 0 if the shard's partition has no leader. Return None before the topic is
        created."""
        if self._partition_count() == 0:
            return None
        return self._leaders.leader(self.shard_of(key))

    def shard_of(self, key: str) -> TopicPartition:
        """Return the partition of a transactional id or a group. The topic must exist."""
        return TopicPartition(TRANSACTION_STATE, self._partition_of(key, self._partition_count()))

    def group_of(self, transactional_id: str) -> str | None:
        """Return the group that may have the id in a shard of another broker. Return None if there
        is none. Raises Refused as `owner` does."""
        _, shard = self.owner(transactional_id)
        pointer = shard.pointers.get(transactional_id)
        return None if pointer is None else pointer.group_id

    # --- commands

    def owner(self, key: str) -> tuple[int, TransactionShard]:
        """Return the index and the shard for `key`, which is a transactional id or a group id.
        Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE)."""
        count = self._partition_count()
        if count == 0:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        index = self._partition_of(key, count)
        if not self._has_pointers and (self.runtime.is_loading or not self._are_pointed()):
            # A transactional id with a group is in the shard of the group, and the id alone does
            # not say which shard that is. So all shards must be loaded first. With several brokers,
            # the shard of the id points to the group.
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        shard = self.runtime.shard(index)
        # This is set only with a shard in service, because `is_loading` is also False before the
        # first load.
        self._has_pointers = self._owners is not None
        return index, shard

    def _are_pointed(self) -> bool:
        return self._owners is None or self._owners.are_pointed()

    def keeps_id(self, command: InitProducerId, group_id: str | None) -> bool:
        """Return True if the transactional id exists, and the caller need not get a new producer id
        from its principal. The new id that follows the last epoch of a producer id does not count.
        Raises Refused as `owner` does."""
        name = command.transactional_id
        if name in self._grouped:
            shards = [shard for _, shard in self.runtime.shards()]
        else:
            shards = [self.owner(name if group_id is None else group_id)[1]]
        lives = [live for shard in shards if (live := shard.get(name)) is not None]
        return any(
            command.producer_id != NO_PRODUCER_ID
            or self._owner_of_id(live.metadata.owner[0]) == command.principal
            for live in lives
        )

    def init_producer_id(
        self,
        command: InitProducerId,
        group: GroupAssignment | None = None,
        *,
        is_current: bool = False,
    ) -> Answer:
        """Decide InitProducerId. `group` is the producer's membership in a consumer group.
        `is_current` is True if the membership has the group's current generation. Raises
        Refused."""
        if group is not None or command.transactional_id in self._grouped:
            return self._groups.init_producer_id(command, group, is_current=is_current)
        index, shard = self.owner(command.transactional_id)
        decision = decide_init_producer_id(
            shard,
            command,
            wall_ms=self._wall_ms(),
            new_producer_id=partial(self.new_producer_id, command.principal),
        )
        return self.runtime.run(index, decision)

    def init_as_it_is(self, index: int, shard: TransactionShard, command: InitProducerId) -> Answer:
        """Decide InitProducerId in this shard. The id stays in its group."""
        return self._groups.init_as_it_is(index, shard, command)

    def add_partitions(self, command: AddPartitions) -> Answer:
        """Add partitions to the transaction, or only verify them. Raises Refused."""
        index, shard = self.owner(command.group_id or command.transactional_id)
        if command.group_id is not None and shard.groups.is_outdated(command.transactional_id):
            return self._outdated(shard, command)
        decision = decide_add_partitions(
            shard, command, now_ms=self._monotonic_ms(), wall_ms=self._wall_ms()
        )
        return self.runtime.run(index, decision)

    def end_txn(self, command: EndTxn) -> Answer:
        """Commit or abort the transaction. Raises Refused."""
        index, shard = self.owner(command.group_id or command.transactional_id)
        if command.group_id is not None and shard.groups.is_outdated(command.transactional_id):
            return self._outdated(shard, command)
        if command.members:
            return self._groups.end_txn(shard, command)
        decision = decide_end_txn(
            shard,
            command,
            wall_ms=self._wall_ms(),
            new_producer_id=partial(self.next_producer_id, command.producer_id),
        )
        return self.runtime.run(index, decision)

    def abort_older(self, producer_ids: frozenset[int], caller: ClientRequest | None) -> Answer:
        """Abort the open transactions of these producers, because a newer producer commits offsets
        of the same input partitions (KIP-447, early draft)."""
        return self._groups.abort_older(producer_ids, caller)

    def expire_pointers(self, before_ms: int) -> None:
        """Remove pointers that were written before `before_ms` (wall clock), if their groups do not
        have the ids any more. A single broker has no pointers."""
        if self._owners is not None:
            self._owners.expire_pointers(before_ms)

    def next_producer_id(self, producer_id: int) -> int:
        """Return the id that replaces `producer_id` after its last epoch. It has the same
        principal. Raises Refused if no id is available now."""
        return self.new_producer_id(self._owner_of_id(producer_id))

    def _outdated(self, shard: TransactionShard, command: AddPartitions | EndTxn) -> Answer:
        live = shard.get(command.transactional_id)
        if live is not None:
            producer = command.producer_id, command.producer_epoch
            decision = refuse_outdated(shard, live, producer, self._wall_ms())
            return self.runtime.run(shard.index, decision)
        return ILLEGAL_GENERATION

    def refused_by_group(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        reason: Reason,
        caller: ClientRequest,
    ) -> None:
        """Count a refused request of `caller`. The request was refused because the group has a
        generation without the transactional id (KIP-447)."""
        try:
            shard, live = self._find(transactional_id)
        except Refused:
            self.fences.refuse_unremembered(reason.cause)
        else:
            decision = refuse_in_group(live, producer, reason, self._wall_ms(), caller=caller)
            self.runtime.run(shard.index, decision)

    def abort_overdue(self, at_most: int) -> list[str]:
        """Abort transactions that are past their timeout. Return the ids of these transactions. An
        id with a failed append is left out, and the next scan finds the id again. `at_most`: the
        maximum number in this turn of the loop (scenario T9)."""
        aborted: list[str] = []
        now_ms = self._monotonic_ms()
        for index, shard in self.runtime.shards():
            for transactional_id in shard.overdue(now_ms, at_most - len(aborted)):
                live = shard.ongoing.get(transactional_id)
                # The abort of an earlier id in this list may have completed this transaction.
                if live is None or not is_overdue(live, now_ms):
                    continue
                decision = decide_overdue(
                    live,
                    wall_ms=self._wall_ms(),
                    new_producer_id=partial(self.next_producer_id, live.metadata.owner[0]),
                )
                self.runtime.run(index, decision)
                live = shard.ongoing.get(transactional_id)
                if live is None or live.pending is not None:
                    aborted.append(transactional_id)
        return aborted
