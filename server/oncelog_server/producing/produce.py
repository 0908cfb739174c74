"""A Produce request as a small state machine: check, ask the transaction coordinator, append, wait.

The coordinator is asked only if necessary. The first batch of a transaction in a partition is
parked until the coordinator confirms that the partition is in the transaction (KIP-890 part 1). A
client of v12 or later does not add its partitions itself: the request to the coordinator adds them
(part 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from typing import Final, TypeAlias

import msgspec

from oncelog_protocol.errors import RETRIABLE, ErrorCode
from oncelog_protocol.records.batch import MAGIC, TRANSACTIONAL_FLAG, BatchHeader
from oncelog_server.deferred import Deferred, Order, then_ask
from oncelog_server.log.errors import InvalidRecords, RecordError
from oncelog_server.log.results import CLIENT, Appended
from oncelog_server.log.validation import PreparedBatch
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.refused_sequences import EarlySequences, TopicKey
from oncelog_server.partition.verification import VerificationGuard
from oncelog_server.producing.adding_retry import NEVER, AddingRetry
from oncelog_server.refusal import Refused
from oncelog_server.timers import Timers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult

NONE: Final = ErrorCode.NONE
ACKS_ALL: Final = -1
TRANSACTION_VERSION_2: Final = 2

TransactionAnswer: TypeAlias = TransactionResult | Deferred[TransactionResult]
AddToTransaction: TypeAlias = Callable[[AddPartitions], TransactionAnswer]

# Error code of the coordinator -> error code of the Produce response. A stale epoch is always
# INVALID_PRODUCER_EPOCH in Produce. A temporary error gets a code that clients of every version
# retry.
ADD_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
# The same for clients that add partitions themselves. Such clients do not expect
# CONCURRENT_TRANSACTIONS.
VERIFICATION_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    **ADD_ERRORS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
}


class PartitionAppend(msgspec.Struct, eq=False):
    """A partition of a request, and its outcome so far. The batch is appended if `code` is still
    NONE. `partition` is None if this broker does not have the partition."""

    index: int
    records: memoryview | bytearray | None
    partition: Partition | None
    # The header as the client sent it, before the batch is validated. None if the batch has fewer
    # bytes than a header.
    header: BatchHeader | None
    code: ErrorCode = NONE
    message: str | None = None
    appended: Appended | None = None
    guard: VerificationGuard | None = None
    # The batch with its records checked, if that was done in steps.
    prepared: PreparedBatch | None = None
    # The invalid records for which the batch was refused.
    record_errors: Sequence[RecordError] = ()

    @property
    def producer(self) -> tuple[int, int]:
        """Return the producer id and epoch of a transactional batch."""
        header = self.header
        assert header is not None
        return header.producer_id, header.producer_epoch

    def refuse(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        self.message = message or None
        self.record_errors = ()


def transactional_of(appends: Iterable[PartitionAppend]) -> list[PartitionAppend]:
    """Return the appends with the transactional flag, before their batches are validated."""
    return [
        append
        for append in appends
        if append.header is not None and append.header.attributes & TRANSACTIONAL_FLAG
    ]


def forget_records(appends: Iterable[PartitionAppend]) -> None:
    """Forget the bytes of the batches, which are appended or refused. A wait for the commit would
    keep the whole request in memory."""
    for append in appends:
        append.records = None


class _Tried(msgspec.Struct):
    """The requests to the coordinator so far. `since_ms`: the time of the first one."""

    since_ms: int
    attempts: int = 0


class Produce(msgspec.Struct, eq=False):
    """A Produce request.

    `appends` are in the order of the request. `transactional` are the appends with a transactional
    batch. `group_id` is the consumer group of the transaction, None without a group. If `verifies`
    is True, the coordinator also verifies partitions that the client adds itself. With acks=all,
    the response does not wait for the commit longer than `timeout_ms`.
    """

    appends: list[PartitionAppend]
    transactional: list[PartitionAppend]
    transactional_id: str | None
    acks: int
    adds_partitions: bool
    add_to_transaction: AddToTransaction
    now_ms: int
    timeout_ms: int
    timers: Timers
    group_id: str | None = None
    verifies: bool = True
    caller: ClientRequest | None = None
    adding_retry: AddingRetry = NEVER
    # True if the bytes of the batches stay in memory after the call.
    keeps_records: bool = False

    def run(self) -> Deferred[None] | None:
        """Run the request. Return None if the request is complete. Otherwise return a Deferred that
        completes together with the request."""
        if self.transactional:
            if not self._check_transactional():
                return None
            if self.verifies or self.adds_partitions:
                unknown = [append for append in self.transactional if self.is_unknown(append)]
                if unknown:
                    return self._ask_first(unknown, _Tried(self.adding_retry.monotonic_ms()))
        return self._append_all()

    def _check_transactional(self) -> bool:
        code = self.wrong_transaction({append.producer for append in self.transactional})
        if code is NONE:
            return True
        for append in self.appends:
            append.refuse(code)
        return False

    def wrong_transaction(self, producers: Set[tuple[int, int]]) -> ErrorCode:
        """Return the error code if the batches are not all of one transaction, else NONE.

        `producers` are the batches' producer ids and epochs. The request must name the transaction
        (Z17, H48).
        """
        if self.transactional_id is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else NONE

    # --- the request to the coordinator (KIP-890)

    def is_unknown(self, append: PartitionAppend) -> bool:
        """Return True if the append is not refused, and the producer's transaction has no batch in
        the partition yet."""
        header = _header(append)
        return (
            append.partition is not None
            and append.code is NONE
            and not append.partition.has_open_transaction(header.producer_id, header.producer_epoch)
        )

    def ask(self, unknown: list[PartitionAppend]) -> TransactionAnswer:
        """Ask the coordinator to add or verify these partitions. Return its result."""
        producer_id, producer_epoch = unknown[0].producer
        assert self.transactional_id is not None
        command = AddPartitions(
            self.transactional_id,
            producer_id,
            producer_epoch,
            frozenset(map(_topic_partition, unknown)),
            TRANSACTION_VERSION_2,
            verify_only=not self.adds_partitions,
            group_id=self.group_id,
            caller=self.caller,
        )
        try:
            return self.add_to_transaction(command)
        except Refused as refused:
            return TransactionResult(refused.code)

    def _ask_first(self, unknown: list[PartitionAppend], tried: _Tried) -> Deferred[None] | None:
        """Ask the coordinator, then append."""
        result = self.ask(unknown)
        tried.attempts += 1
        if isinstance(result, TransactionResult):
            return self._append_known(unknown, result, tried)
        return self._append_later(unknown, result, tried)

    def _append_later(
        self, unknown: list[PartitionAppend], pending: Deferred[TransactionResult], tried: _Tried
    ) -> Deferred[None] | None:
        # The transaction may end before a later result arrives. So all partitions of the request
        # need guards, also those that already have a batch of the transaction. An immediate result
        # needs no guards.
        guarded = self._begin_verification()
        self._keep_records()

        def go_on(result: TransactionResult) -> Deferred[None] | None:
            try:
                return self._append_known(unknown, result, tried)
            finally:
                self._end_verification(guarded)

        pending.on_abandon(lambda: self._end_verification(guarded))
        return then_ask(pending, go_on)

    def _keep_records(self) -> None:
        """Copy the bytes, which are in the connection's read buffer, so that they outlive this
        call. Later calls do nothing."""
        if self.keeps_records:
            return
        self.keeps_records = True
        for append in self.appends:
            if append.records is not None:
                append.records = memoryview(bytearray(append.records))

    def is_tried_again(self, code: ErrorCode, since_ms: int) -> bool:
        """Return True if the request to the coordinator is repeated after this error."""
        return self.adds_partitions and self.adding_retry.is_due(code, since_ms)

    def _ask_again(
        self, unknown: list[PartitionAppend], code: ErrorCode, tried: _Tried
    ) -> Deferred[None] | None:
        """Repeat the request to the coordinator after a pause, even if the client has hung up: a
        client may hang up right after its last request.

        Each attempt has guards of its own, because markers of the last transaction may come between
        two attempts.
        """
        self._keep_records()
        waited: Deferred[None] = Deferred()
        pause_ms = self.adding_retry.pause_ms(code, tried.attempts)
        self.timers.call_later(pause_ms, lambda: waited.complete(None))

        def again(_: None) -> Deferred[None] | None:
            return self._ask_first(unknown, tried)

        return then_ask(waited, again)

    def _append_known(
        self, unknown: list[PartitionAppend], result: TransactionResult, tried: _Tried
    ) -> Deferred[None] | None:
        """Append the batches that the coordinator's result allows, or try again."""
        if self.is_tried_again(result.code, tried.since_ms):
            return self._ask_again(unknown, result.code, tried)
        if result.code is not NONE:
            for append in unknown:
                self.refuse_added(append, result)
        elif self.adds_partitions:
            for append in unknown:
                _check_begins_at_zero(append)
        later = self._append_all()
        forget_records(self.appends)
        return later

    def refuse_added(self, append: PartitionAppend, result: TransactionResult) -> None:
        """Refuse an append, because the coordinator did not add or verify its partition."""
        errors = ADD_ERRORS if self.adds_partitions else VERIFICATION_ERRORS
        append.refuse(errors.get(result.code, result.code), result.message)
        _remember_refused(append)

    def _begin_verification(self) -> list[PartitionAppend]:
        """Guard the transactional batches that are not refused yet. Return their appends."""
        guarded = []
        for append in self.transactional:
            if append.partition is not None and append.code is NONE:
                append.guard = append.partition.guards.begin(_header(append).producer_id)
                guarded.append(append)
        return guarded

    def _end_verification(self, guarded: list[PartitionAppend]) -> None:
        for append in guarded:
            assert append.partition is not None
            assert append.guard is not None
            append.partition.guards.end(_header(append).producer_id, append.guard)
            append.guard = None

    # --- append and wait

    def _append_all(self) -> Deferred[None] | None:
        """Append all batches. Return None if no append has to wait until it is committed."""
        uncommitted = []
        acks_all, now_ms = self.acks == ACKS_ALL, self.now_ms
        for append in self.appends:
            if append.code is not NONE:
                continue
            partition, records = append.partition, append.records
            assert partition is not None
            if not records:
                append.refuse(ErrorCode.INVALID_RECORD, "no batch")
                continue
            try:
                if append.guard is not None:
                    partition.guards.check(_header(append).producer_id, append.guard)
                if acks_all and partition.replicas.is_under_min_isr:
                    partition.check_in_sync_replicas()
                if partition.refused_sequences.lowest_by_id:
                    _check_begins(append)
                if append.prepared is None:  # as nearly always
                    appended = partition.append(records, now_ms, append.header)
                else:
                    appended = partition.append(
                        records, now_ms, append.header, CLIENT, append.prepared
                    )
                    append.prepared = None
                append.appended = appended
            except Refused as refused:
                append.refuse(refused.code, refused.message)
                if isinstance(refused, InvalidRecords):
                    append.record_errors = refused.errors
                _remember_refused(append)
            else:
                if acks_all and appended.last_offset >= partition.high_watermark:
                    uncommitted.append(append)
        if not uncommitted:
            return None
        forget_records(self.appends)
        return _AllCommitted(uncommitted, self.timeout_ms, self.timers).done


def _remember_refused(append: PartitionAppend) -> None:
    """Record the sequence of a refused batch that the client will retry.

    Later batches of the same producer may be in flight. `_check_begins` refuses these batches.
    """
    assert append.partition is not None
    if append.code not in RETRIABLE or append.code is ErrorCode.CORRUPT_MESSAGE:
        return
    header = append.header
    if header is not None and header.producer_id >= 0 and _is_unknown(append, header):
        append.partition.refused_sequences.refused(
            header.producer_id, header.producer_epoch, header.base_sequence
        )


def remember_early(
    sequences: EarlySequences, topic: TopicKey, index: int, header: BatchHeader
) -> None:
    """Record the sequence of a batch that was refused because its partition is not open yet."""
    if header.magic == MAGIC and header.producer_id >= 0:
        sequences.refused(
            topic, index, header.producer_id, header.producer_epoch, header.base_sequence
        )


def _check_begins(append: PartitionAppend) -> None:
    """Raise Refused if a batch of an unknown producer follows a refused batch (R11).

    The log accepts any first sequence of an unknown producer, so only this check notices that
    earlier batches were refused.
    """
    assert append.partition is not None
    header = append.header
    if header is None:
        return
    refused = append.partition.refused_sequences
    first = refused.lowest(header.producer_id, header.producer_epoch)
    if first is None:
        return
    if header.base_sequence > first and _is_unknown(append, header):
        raise Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _missing(header, first))
    refused.forget(header.producer_id)


def _check_begins_at_zero(append: PartitionAppend) -> None:
    """Refuse an unknown producer's batch with a sequence above 0 (KIP-890 part 2).

    With part 2, a producer has a new epoch in each transaction, and begins each epoch with sequence
    0. A sequence above 0 means that earlier batches were refused or are still in flight.
    """
    header = _header(append)
    if header.base_sequence > 0 and _is_unknown(append, header):
        append.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _missing(header, 0))


def _is_unknown(append: PartitionAppend, header: BatchHeader) -> bool:
    assert append.partition is not None
    return not append.partition.knows_producer(header.producer_id)


def _missing(header: BatchHeader, first: int) -> str:
    return f"sequence {header.base_sequence} arrived, but sequence {first} is missing"


class _AllCommitted:
    """Completes `done` when every append of a request is committed or has failed, at the latest
    after `timeout_ms`. An append that is not committed by then gets REQUEST_TIMED_OUT, and may
    still be committed later (Kafka's DelayedProduce)."""

    def __init__(self, uncommitted: list[PartitionAppend], timeout_ms: int, timers: Timers) -> None:
        # `ordered`, because the request has already taken effect and only its response is pending.
        # The connection may serve the next request meanwhile.
        self.done: Deferred[None] = Deferred(order=Order.ORDERED)
        self._timer = timers.call_later(max(timeout_ms, 0), self._time_is_up)
        self.done.on_cancel(self._timer.cancel)
        self._pending = dict(enumerate(uncommitted))
        for number, append in enumerate(uncommitted):
            partition, appended = append.partition, append.appended
            assert partition is not None
            assert appended is not None
            settle = partial(self._settle, number)
            partition.when_committed(appended.last_offset + 1, settle, needs_isr=True)

    def _settle(self, number: int, code: ErrorCode) -> None:
        append = self._pending.pop(number, None)
        if append is None:
            return  # the request has timed out
        if code is not ErrorCode.NONE:
            append.refuse(code)
        if not self._pending:
            self._timer.cancel()
            self.done.complete(None)

    def _time_is_up(self) -> None:
        pending, self._pending = self._pending, {}
        for append in pending.values():
            append.refuse(ErrorCode.REQUEST_TIMED_OUT)
        self.done.complete(None)


def _header(append: PartitionAppend) -> BatchHeader:
    assert append.header is not None
    return append.header


def _topic_partition(append: PartitionAppend) -> TopicPartition:
    assert append.partition is not None
    return append.partition.topic_partition
