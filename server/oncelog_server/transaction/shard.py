"""The state of one partition of `__transaction_state`: every transactional id that hashes to the
partition. For an id in a consumer group, the group id is hashed instead.

Only `replay` changes durable state. A decision marks its id as pending until the record is
committed. Meanwhile every other command on the id gets CONCURRENT_TRANSACTIONS, which clients
retry. So no decision depends on an uncommitted record, and no state has to be rolled back. Effects
of decisions (`EFFECTS`) change the state that is only in memory. The decisions are in `commands`
and `grouped`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import TRANSACTION_POINTER_RECORD_TYPE
from oncelog_protocol.internal.transaction_log import (
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.coordinator.shard import (
    CoordinatorRecord,
    EffectRow,
    EffectTable,
    Park,
    TransactionOfRecords,
)
from oncelog_server.deferred import Deferred
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.effects import (
    ClientKnown,
    Fenced,
    GenerationPending,
    Pending,
    PointerPending,
    ProducerRefused,
    RefusalCounted,
    ReleaseResponse,
    StartTimer,
)
from oncelog_server.transaction.fences import Fence, Fences
from oncelog_server.transaction.groups import TransactionGroups
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    client_in,
    from_value,
)
from oncelog_server.transaction.results import TransactionResult

if TYPE_CHECKING:
    from oncelog_server.transaction.pointers import TransactionPointers
    from oncelog_server.transaction.unfinished import UnfinishedIds

# All ids share this empty set of missing markers, because there may be very many ids (scenario
# D10).
_NONE_LEFT: Final[set[TopicPartition]] = set()

# The beginning of the key of a pointer's record.
_POINTER_TYPE: Final = TRANSACTION_POINTER_RECORD_TYPE.to_bytes(2)


class LiveTransaction(msgspec.Struct):
    """A transactional id with its state in memory."""

    metadata: TransactionMetadata
    # The state after the pending decision: it becomes `metadata` when the record of the decision is
    # committed. None without a pending decision. While it is set, the id gets no other decision.
    pending: TransactionMetadata | None = None
    # Time (monotonic ms) of the abort by timeout. The timeout starts with the first partition.
    deadline_ms: int | None = None
    # Partitions without their marker. Empty except in PREPARE_*.
    markers_left: set[TopicPartition] = msgspec.field(default_factory=lambda: _NONE_LEFT)
    # Parked EndTxn responses. They wait until the transaction is complete.
    waiting: list[Deferred[TransactionResult]] = msgspec.field(default_factory=list)
    # The client of the present producer, if this coordinator knows the client.
    client: Client | None = None
    fences: tuple[Fence, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Return True if clients may see the id. Clients see the id from the commit of its first
        record until the id moves to another coordinator."""
        return self.metadata.last_update_ms >= 0 and (
            self.metadata.state is not TransactionState.DEAD
        )

    @property
    def is_busy(self) -> bool:
        return self.pending is not None or self.metadata.is_prepared


class TransactionShard:
    """The state of one partition. `coordinator_epoch` is the leader epoch of the partition. Every
    marker has this epoch. `index` is the number of the partition. `owner_of_id` returns the
    principal of a producer id as text, an empty text if the id belongs to every principal."""

    def __init__(
        self,
        coordinator_epoch: int,
        *,
        index: int = 0,
        max_timeout_ms: int,
        grouped: Counter[str] | None = None,
        fences: Fences | None = None,
        is_given_id: Callable[[int], bool] = lambda producer_id: True,
        owner_of_id: Callable[[int], str] = lambda producer_id: "",
    ) -> None:
        self.index = index
        self.owner_of_id = owner_of_id
        self._is_given_id = is_given_id
        self.fences = Fences() if fences is None else fences
        self.coordinator_epoch = coordinator_epoch
        self.max_timeout_ms = max_timeout_ms
        self.transactions: dict[str, LiveTransaction] = {}
        self._grouped: Counter[str] = Counter() if grouped is None else grouped
        self.groups = TransactionGroups(self._grouped)
        # None until there is a pointer.
        self._pointers: TransactionPointers | None = None
        # The unfinished ids of groups. None until a group has an id.
        self.unfinished: UnfinishedIds | None = None
        # Ids in PREPARE_*, in the order of their decisions. A new coordinator has to complete these
        # ids.
        self.prepared: dict[str, LiveTransaction] = {}
        self.ongoing: dict[str, LiveTransaction] = {}
        # Number of control records in the log, which should have none.
        self.stray_markers = 0
        # The metadata of the pending decisions by record, so that replay need not decode the
        # records.
        self._decided: dict[CoordinatorRecord, TransactionMetadata] = {}

    def get(self, transactional_id: str) -> LiveTransaction | None:
        return self.transactions.get(transactional_id)

    def group_of(self, transactional_id: str) -> str | None:
        """Return the consumer group of the id. Return None if the id has no group. The shard of a
        group may contain an id without a group, because different keys may have the same hash."""
        membership = self.groups.memberships.get(transactional_id)
        return None if membership is None else membership.group_id

    @property
    def pointers(self) -> TransactionPointers:
        """The groups, which other brokers may coordinate, of the ids that hash to this shard."""
        if self._pointers is None:
            # A single broker has no pointers, and the import would delay every start.
            from oncelog_server.transaction.pointers import TransactionPointers

            self._pointers = TransactionPointers(self._grouped)
        return self._pointers

    def pointer_removal(self, transactional_id: str) -> tuple[CoordinatorRecord, ...]:
        """Return the tombstone of the id's pointer, none if the id has no pointer."""
        return () if self._pointers is None else self._pointers.removal(transactional_id)

    # --- effects

    def begin(self, effect: Pending) -> None:
        """Mark the id as pending until the decision is committed or has failed."""
        target = effect.target
        live = self.transactions.get(target.transactional_id)
        if live is None:
            live = self.transactions[target.transactional_id] = LiveTransaction(_unwritten(target))
        live.pending = target
        if self.unfinished is not None:
            self.unfinished.update(target.transactional_id)
        if effect.record.value is not None:
            self._decided[effect.record] = target

    def take_back(self, effect: Pending, code: int) -> None:
        """Remove the pending mark after a failed decision. Also remove the id if the failed record
        was its first."""
        self._decided.pop(effect.record, None)
        transactional_id = effect.target.transactional_id
        live = self.transactions.get(transactional_id)
        if live is None or live.pending is not effect.target:
            return
        live.pending = None
        if live.metadata.last_update_ms < 0:
            del self.transactions[transactional_id]
        if self.unfinished is not None:
            self.unfinished.update(transactional_id)

    def remember_fence(self, effect: Fenced) -> None:
        live = self.transactions.get(effect.fence.transactional_id)
        fences = self.fences.remember(() if live is None else live.fences, effect.fence)
        if live is not None:
            live.fences = fences

    def count_refusal(self, effect: ProducerRefused) -> None:
        live = self.transactions[effect.transactional_id]
        live.fences = self.fences.refuse(live.fences, effect.producer_id, effect.producer_epoch)

    def count_unknown(self, effect: RefusalCounted) -> None:
        if effect.cause is None:
            self.fences.refused_unknown += 1
        else:
            self.fences.refuse_unremembered(effect.cause)

    def know_client(self, effect: ClientKnown) -> None:
        live = self.transactions.get(effect.transactional_id)
        if live is not None:
            live.client = effect.client

    def start_timer(self, effect: StartTimer) -> None:
        live = self.ongoing.get(effect.transactional_id)
        if live is not None:
            live.deadline_ms = effect.deadline_ms

    def expect_generation(self, effect: GenerationPending) -> None:
        self.groups.expect(effect.transactional_id, effect.membership)

    def forget_generation(self, effect: GenerationPending, code: int) -> None:
        self.groups.settle(effect.transactional_id, effect.membership)

    def note_generation(self, effect: GenerationPending) -> None:
        self.groups.settle(effect.transactional_id, effect.membership)
        self.groups.note(effect.membership, effect.at_ms, effect.client)

    def expect_pointer(self, effect: PointerPending) -> None:
        self.pointers.expect(effect.transactional_id)

    def settle_pointer(self, effect: PointerPending, code: int = 0) -> None:
        self.pointers.settle(effect.transactional_id)

    def release_response(self, effect: ReleaseResponse) -> None:
        live = self.transactions.get(effect.transactional_id)
        if live is not None:
            _release(live, effect.result)

    # --- parked responses: EndTxn until its transaction is complete

    def park(self, place: Park, answer: Deferred[Any]) -> None:
        self.transactions[str(*place.key)].waiting.append(answer)

    def unpark(self, place: Park, answer: Deferred[Any]) -> None:
        self.transactions[str(*place.key)].waiting.remove(answer)

    # --- replay: live and at load

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        """Apply a record. Raises ValueError for an invalid record. The caller must then refuse the
        shard (scenario S14)."""
        decided = self._decided.pop(record, None)
        if decided is not None:
            self._assign(decided)
            return
        try:
            transactional_id = decode_transaction_log_key(record.key).transactional_id
        except UnknownRecordVersion:
            # The record may describe a group or a pointer. Records of unknown types are skipped, as
            # by Kafka's loader (scenario S15).
            if record.key[:2] == _POINTER_TYPE:
                self.pointers.replay(record, offset)
            else:
                self.groups.replay(record)
                if self.unfinished is None and self.groups.memberships:
                    self.unfinished = self._index()
            return
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            self.prepared.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            self.groups.forget(transactional_id)
            if self._pointers is not None:
                self._pointers.forget_claim(transactional_id)
            return
        value = decode_transaction_log_value(record.value)
        metadata = from_value(transactional_id, value)
        self._check_given(metadata)
        self._assign(metadata)
        self.transactions[transactional_id].client = client_in(value)

    def _index(self) -> UnfinishedIds:
        # Most brokers have no groups of ids, and the index would slow every transaction.
        from oncelog_server.transaction.unfinished import UnfinishedIds

        unfinished = UnfinishedIds(self.groups.memberships, self.transactions)
        self.groups.on_change = unfinished.update
        return unfinished

    def _check_given(self, metadata: TransactionMetadata) -> None:
        """Raise ValueError if the metadata store has not assigned a producer id of `metadata`. The
        store was then restored from an older copy, and would assign the id again."""
        for producer_id in (metadata.producer_id, metadata.next_producer_id):
            if not self._is_given_id(producer_id):
                raise ValueError(
                    f"{metadata.transactional_id!r} has producer id {producer_id}, which was never "
                    "assigned: the metadata is older than the log; `oncelog storage recover` "
                    "repairs it while the broker is stopped"
                )

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Count a marker in the transaction log. The log should have no markers. The marker has no
        other effect, so that a stray marker does not make the shard unavailable."""
        self.stray_markers += 1

    def _assign(self, metadata: TransactionMetadata) -> None:
        self._apply(metadata)
        if self.unfinished is not None:
            self.unfinished.update(metadata.transactional_id)

    def _apply(self, metadata: TransactionMetadata) -> None:
        transactional_id = metadata.transactional_id
        live = self.transactions.get(transactional_id)
        if live is None:
            live = self.transactions[transactional_id] = LiveTransaction(metadata)
        live.metadata = metadata
        live.pending = None
        # Compaction removes a COMPLETE if the id has a newer record. If a power failure undoes only
        # a part of the compaction, the PREPARE is back without its COMPLETE. Then the id is still
        # prepared here.
        self.prepared.pop(transactional_id, None)
        live.markers_left = _NONE_LEFT
        if metadata.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = live
            return
        live.deadline_ms = None
        self.ongoing.pop(transactional_id, None)
        if metadata.is_prepared:
            live.markers_left = set(metadata.partitions)
            self.prepared[transactional_id] = live

    def on_loaded(self, *, now_ms: int, wall_ms: int) -> None:
        """Give reloaded transactions the rest of their timeout, not a new timeout (scenario
        T5)."""
        for live in self.ongoing.values():
            timeout_ms = live.metadata.timeout_ms
            elapsed_ms = wall_ms - live.metadata.start_ms
            live.deadline_ms = now_ms + min(max(timeout_ms - elapsed_ms, 0), timeout_ms)

    def on_unloaded(self) -> None:
        """Complete the parked requests with an error, because this broker does not lead the
        partition any more. Clients retry the requests at the new coordinator."""
        for live in self.prepared.values():
            _release(live, TransactionResult(ErrorCode.NOT_COORDINATOR))
        self.groups.on_unloaded()
        if self._pointers is not None:
            self._pointers.on_unloaded()

    # --- markers

    def marker_work(self, transactional_id: str) -> MarkerWork | None:
        """Return the missing markers of a prepared id, possibly none. Return None if the id is not
        prepared."""
        live = self.prepared.get(transactional_id)
        return None if live is None else self._work_of(live)

    def marker_works(self) -> list[MarkerWork]:
        """Return the missing markers of all prepared ids, in the order of their decisions."""
        return [self._work_of(live) for live in self.prepared.values()]

    def _work_of(self, live: LiveTransaction) -> MarkerWork:
        metadata = live.metadata
        return MarkerWork(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            committed=metadata.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=metadata.client_transaction_version,
            partitions=tuple(sorted(live.markers_left)),
            decision=metadata,
        )

    def is_due(self, work: MarkerWork) -> bool:
        """Return True if the transaction of `work` is not complete yet. The comparison is by
        identity, because two transactions of one producer epoch may have the same partitions and
        the same millisecond."""
        live = self.prepared.get(work.transactional_id)
        return live is not None and live.metadata is work.decision

    def marker_written(self, work: MarkerWork, partition: TopicPartition) -> None:
        """Record that the partition has its marker, or that the partition is deleted. Do nothing if
        the marker is that of an older transaction."""
        if self.is_due(work):
            self.prepared[work.transactional_id].markers_left.discard(partition)

    def release(self, transactional_id: str) -> None:
        """Send the response to EndTxn now. The decision is durable, but a marker takes longer
        (another broker, a retry)."""
        live = self.prepared.get(transactional_id)
        if live is not None:
            _release(live, decided(live.metadata))

    def give_up(self, transactional_id: str) -> None:
        """Complete the parked requests of this id with an error, because a newer coordinator
        completes the transaction. Clients retry the requests at the newer coordinator."""
        live = self.prepared.get(transactional_id)
        if live is not None:
            _release(live, TransactionResult(ErrorCode.NOT_COORDINATOR))

    # --- time

    def overdue(self, now_ms: int, at_most: int) -> list[str]:
        """Return at most `at_most` ids with a transaction past its timeout. Ids with a pending
        decision are left out (scenario T3)."""
        overdue = (
            transactional_id
            for transactional_id, live in self.ongoing.items()
            if is_overdue(live, now_ms)
        )
        return list(islice(overdue, at_most))


def is_overdue(live: LiveTransaction, now_ms: int) -> bool:
    """Return True if the transaction is open and past its timeout, and no decision is pending. A
    participant in two-phase commit has no timeout (KIP-939)."""
    return (
        live.deadline_ms is not None
        and live.deadline_ms <= now_ms
        and live.pending is None
        and not live.metadata.is_two_phase
    )


def decided(metadata: TransactionMetadata) -> TransactionResult:
    """Return the response after the commit of PREPARE, with the producer's next id and epoch
    (EndTxn v5)."""
    if metadata.next_producer_id >= 0:
        epoch = max(metadata.next_producer_epoch, 0)
        return TransactionResult(ErrorCode.NONE, metadata.next_producer_id, epoch)
    return TransactionResult(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)


def _release(live: LiveTransaction, result: TransactionResult) -> None:
    waiting, live.waiting = live.waiting, []
    for deferred in waiting:
        deferred.complete(result)


def _unwritten(target: TransactionMetadata) -> TransactionMetadata:
    """Return the metadata of an id that has no record yet."""
    return TransactionMetadata(
        target.transactional_id, target.producer_id, NO_PRODUCER_EPOCH, target.timeout_ms
    )


EFFECTS: Final[EffectTable[TransactionShard]] = {
    Pending: EffectRow(taken=TransactionShard.begin, failed=TransactionShard.take_back),
    GenerationPending: EffectRow(
        taken=TransactionShard.expect_generation,
        failed=TransactionShard.forget_generation,
        committed=TransactionShard.note_generation,
    ),
    PointerPending: EffectRow(
        taken=TransactionShard.expect_pointer,
        failed=TransactionShard.settle_pointer,
        committed=TransactionShard.settle_pointer,
    ),
    Fenced: EffectRow(committed=TransactionShard.remember_fence),
    ProducerRefused: EffectRow(committed=TransactionShard.count_refusal),
    RefusalCounted: EffectRow(committed=TransactionShard.count_unknown),
    ClientKnown: EffectRow(committed=TransactionShard.know_client),
    StartTimer: EffectRow(committed=TransactionShard.start_timer),
    ReleaseResponse: EffectRow(committed=TransactionShard.release_response),
}
