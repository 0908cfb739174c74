"""The state of one partition of `__transaction_state`: every transactional id that hashes to it.

Inputs are commands with the time; outputs are `Decision`s. `replay` alone changes what is durable;
a decision whose record is not committed yet only marks its id as pending, and the next command on
that id is told CONCURRENT_TRANSACTIONS (the error is part of the protocol, so nothing ever has to
be rolled back). The commands themselves are in `init_producer_id`, `add_partitions`, `end_txn`,
`fencing`, `expiry` and the `group_` modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import (
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision, TransactionOfRecords
from oncelog_server.deferred import Deferred
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import Fence, FenceCause, Fences, Reason, fence_for, fence_of
from oncelog_server.transaction.grouped.groups import TransactionGroups
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import (
    TransactionMetadata,
    client_in,
    from_value,
    to_record,
)
from oncelog_server.transaction.results import (
    CONCURRENT_COMMIT,
    FENCED,
    UNKNOWN_PRODUCER,
    TransactionResult,
)
from oncelog_server.transaction.states import COMPLETED

R = TypeVar("R")

# What a producer is told when the append of a decision fails, where it is not
# COORDINATOR_NOT_AVAILABLE (Kafka's TransactionStateManager).
APPEND_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

# What most ids owe, most of the time: one set for all of them, as there may be very many (D10).
_NONE_LEFT: Final[set[TopicPartition]] = set()


@dataclass(slots=True)
class LiveTransaction:
    """A transactional id and what is only true while this coordinator lives."""

    metadata: TransactionMetadata
    # Decided, but its record is not committed: nothing else may be decided for this id.
    pending: TransactionMetadata | None = None
    # Monotonic ms at which an ongoing transaction is aborted; counted from its first partition.
    deadline_ms: int | None = None
    # Partitions that have not got their marker yet. Not empty only while PREPARE_*.
    markers_left: set[TopicPartition] = field(default_factory=lambda: _NONE_LEFT)
    # EndTxn answers that wait until the transaction is complete.
    waiting: list[Deferred[TransactionResult]] = field(default_factory=list)
    # Who has its producer, as far as it said so to this coordinator; and who had, and lost it.
    client: Client | None = None
    fences: tuple[Fence, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Whether it exists for others: not before its first record is committed, and not where it
        has moved away."""
        return self.metadata.last_update_ms >= 0 and (
            self.metadata.state is not TransactionState.DEAD
        )

    @property
    def is_busy(self) -> bool:
        return self.pending is not None or self.metadata.is_prepared


class TransactionShard:
    """`coordinator_epoch` is the leader epoch of the shard's partition; every marker carries it."""

    def __init__(
        self,
        coordinator_epoch: int,
        *,
        max_timeout_ms: int,
        grouped: set[str] | None = None,
        fences: Fences | None = None,
        is_given_id: Callable[[int], bool] = lambda producer_id: True,
    ) -> None:
        self._is_given_id = is_given_id
        self.fences = Fences() if fences is None else fences
        self.coordinator_epoch = coordinator_epoch
        self.max_timeout_ms = max_timeout_ms
        self.transactions: dict[str, LiveTransaction] = {}
        self.groups = TransactionGroups(grouped)
        # Ids in PREPARE_*: what a new coordinator has to finish, in the order they were decided.
        self.prepared: dict[str, LiveTransaction] = {}
        self.ongoing: dict[str, LiveTransaction] = {}
        # How many control records the log had, where none belong.
        self.stray_markers = 0
        # What the records say that were decided here and are not committed yet: replay need not
        # decode what was encoded a moment ago.
        self._decided: dict[CoordinatorRecord, TransactionMetadata] = {}

    def get(self, transactional_id: str) -> LiveTransaction | None:
        return self.transactions.get(transactional_id)

    def decide(
        self,
        live: LiveTransaction,
        target: TransactionMetadata,
        response: R | Deferred[R],
        failed: Callable[[ErrorCode], R],
        *,
        opened_by: Client | None = None,
    ) -> Decision[R]:
        """Make `target` the pending state of `live`; `failed` gives the answer if it cannot be
        appended. `opened_by`: who has the transaction, to be known after a restart too."""
        record = to_record(target, opened_by)
        live.pending = target
        self._decided[record] = target

        def on_failure(code: int) -> R:
            live.pending = None
            self._decided.pop(record, None)
            self._forget_if_new(live)
            return failed(APPEND_ERRORS.get(ErrorCode(code), ErrorCode.COORDINATOR_NOT_AVAILABLE))

        return Decision(response, (record,), on_failure=on_failure)

    def cut_off(
        self, live: LiveTransaction, reason: Reason, wall_ms: int, *, aborts: bool = True
    ) -> Callable[[], None]:
        """What to do once the decision that cuts off the producer of `live`, as it is now, is
        committed. `aborts`: it is not left as it is, if it is open."""
        metadata = live.metadata
        fence = fence_for(
            metadata.transactional_id,
            metadata.owner,
            live.client,
            reason,
            aborted=aborts and metadata.state is TransactionState.ONGOING,
            wall_ms=wall_ms,
        )

        def remember() -> None:
            live.fences = self.fences.remember(live.fences, fence)

        return remember

    def refuse(
        self,
        live: LiveTransaction,
        producer_id: int,
        producer_epoch: int,
        result: TransactionResult = FENCED,
        *,
        in_group: bool = False,
    ) -> TransactionResult:
        """The answer to a producer that has been cut off. `in_group`: it knows codes of ours."""
        message = self.fences.refuse(live.fences, producer_id, producer_epoch)
        if in_group:
            fence = fence_of(live.fences, producer_id, producer_epoch)
            if fence is not None and fence.cause is FenceCause.CONCURRENT_COMMIT:
                result = CONCURRENT_COMMIT
        return replace(result, message=message)

    def refuse_unknown(self) -> TransactionResult:
        """The answer to a producer of an id that is not here, or not in its group."""
        self.fences.refused_unknown += 1
        return UNKNOWN_PRODUCER

    def _forget_if_new(self, live: LiveTransaction) -> None:
        """An id whose very first record was not written never existed."""
        if live.metadata.last_update_ms < 0:
            self.transactions.pop(live.metadata.transactional_id, None)

    # --- replay: live and at load

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        """Raises ValueError for a value that cannot be read: the shard must then be refused
        (S14)."""
        decided = self._decided.pop(record, None)
        if decided is not None:
            self._assign(decided)
            return
        try:
            transactional_id = decode_transaction_log_key(record.key).transactional_id
        except UnknownRecordVersion:
            # Or of a later kind: Kafka's loader passes over it too (S15).
            self.groups.replay(record)
            return
        if record.value is None:
            live = self.transactions.pop(transactional_id, None)
            self.prepared.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            self.groups.forget(transactional_id)
            if live is not None:
                _release(live, TransactionResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return
        value = decode_transaction_log_value(record.value)
        metadata = from_value(transactional_id, value)
        self._check_given(metadata)
        self._assign(metadata)
        self.transactions[transactional_id].client = client_in(value)

    def _check_given(self, metadata: TransactionMetadata) -> None:
        """Raise ValueError for a producer id that was never given out, as the metadata says that is
        restored from before: it would be given out again."""
        for producer_id in (metadata.producer_id, metadata.next_producer_id):
            if not self._is_given_id(producer_id):
                raise ValueError(
                    f"{metadata.transactional_id!r} has producer id {producer_id}, which was never "
                    "given out: the metadata is older than the log, `oncelog storage recover` "
                    "mends it while the broker is stopped"
                )

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """There are no transactions in the transaction log itself: a marker says nothing. Skipped,
        so that one which got there does not keep the shard from ever being served."""
        self.stray_markers += 1

    def _assign(self, metadata: TransactionMetadata) -> None:
        transactional_id = metadata.transactional_id
        live = self.transactions.get(transactional_id)
        if live is None:
            live = self.transactions[transactional_id] = LiveTransaction(metadata)
        live.metadata = metadata
        live.pending = None
        if metadata.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = live
            return
        live.deadline_ms = None
        self.ongoing.pop(transactional_id, None)
        if metadata.is_prepared:
            live.markers_left = set(metadata.partitions)
            self.prepared[transactional_id] = live
            return
        live.markers_left = _NONE_LEFT
        self.prepared.pop(transactional_id, None)
        _release(
            live,
            TransactionResult(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch),
        )

    def on_loaded(self, *, now_ms: int, wall_ms: int) -> None:
        """Give reloaded transactions what is left of their time-out, never a fresh one (T5)."""
        for live in self.ongoing.values():
            timeout_ms = live.metadata.timeout_ms
            elapsed_ms = wall_ms - live.metadata.start_ms
            live.deadline_ms = now_ms + min(max(timeout_ms - elapsed_ms, 0), timeout_ms)

    def on_unloaded(self) -> None:
        """This broker does not lead the partition any more: whoever waits asks the new
        coordinator."""
        for live in self.prepared.values():
            _release(live, TransactionResult(ErrorCode.NOT_COORDINATOR))
        self.groups.on_unloaded()

    # --- markers

    def marker_work(self, transactional_id: str) -> MarkerWork | None:
        """The markers that id still owes, or None if it owes none."""
        live = self.prepared.get(transactional_id)
        return None if live is None else self._work_of(live)

    def marker_works(self) -> list[MarkerWork]:
        """Of all ids, in the order of their decisions."""
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
        """Whether that transaction is not complete yet. By identity: two of one producer epoch may
        have the same partitions, and were decided in the same millisecond."""
        live = self.prepared.get(work.transactional_id)
        return live is not None and live.metadata is work.decision

    def marker_written(self, work: MarkerWork, partition: TopicPartition) -> None:
        """That partition has its marker (or is gone for good). Ignored if the work is out of
        date."""
        if self.is_due(work):
            self.prepared[work.transactional_id].markers_left.discard(partition)

    def complete(
        self, transactional_id: str, wall_ms: int, failed: Callable[[], None]
    ) -> Decision[None] | None:
        """The COMPLETE record, once every marker is written; None while some are missing. `failed`
        is called if it cannot be appended: then the id stays prepared and owes this record."""
        live = self.prepared.get(transactional_id)
        if live is None or live.markers_left or live.pending is not None:
            return None
        target = live.metadata.completed(COMPLETED[live.metadata.state], wall_ms)
        return self.decide(live, target, None, lambda code: failed())

    def release(self, transactional_id: str) -> None:
        """Answer EndTxn now: the decision is durable, some marker needs longer (another broker, a
        retry)."""
        live = self.prepared.get(transactional_id)
        if live is not None:
            _release(live, decided(live.metadata))

    def give_up(self, transactional_id: str) -> None:
        """A newer coordinator is at work on this id: whoever waits here asks there."""
        live = self.prepared.get(transactional_id)
        if live is not None:
            _release(live, TransactionResult(ErrorCode.NOT_COORDINATOR))

    # --- time

    def overdue(self, now_ms: int, at_most: int) -> list[str]:
        """Ids whose transaction is older than its time-out and not being decided right now (T3)."""
        overdue = (
            transactional_id
            for transactional_id, due in self._deadlines()
            if due <= now_ms and self.ongoing[transactional_id].pending is None
        )
        return list(islice(overdue, at_most))

    def _deadlines(self) -> Iterator[tuple[str, int]]:
        for transactional_id, live in self.ongoing.items():
            # A participant in two-phase commit waits for its decision however long (KIP-939).
            if live.deadline_ms is not None and not live.metadata.is_two_phase:
                yield transactional_id, live.deadline_ms


def decided(metadata: TransactionMetadata) -> TransactionResult:
    """What the producer is told once PREPARE is committed: the ids it goes on with (EndTxn v5)."""
    if metadata.next_producer_id >= 0:
        epoch = max(metadata.next_producer_epoch, 0)
        return TransactionResult(ErrorCode.NONE, metadata.next_producer_id, epoch)
    return TransactionResult(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)


def _release(live: LiveTransaction, result: TransactionResult) -> None:
    waiting, live.waiting = live.waiting, []
    for deferred in waiting:
        deferred.complete(result)
