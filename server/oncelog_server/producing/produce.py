"""One Produce request as a small state machine: check, ask the transaction coordinator if need be,
append, wait.

The first batch of a transaction in a partition is parked until the coordinator has said that the
partition is in the transaction (KIP-890 part 1). A client that speaks v12 or later does not add its
partitions before: then the question adds them (part 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from oncelog_protocol.errors import RETRIABLE, ErrorCode
from oncelog_protocol.records.batch import HEADER_SIZE, TRANSACTIONAL_FLAG, BatchHeader, read_header
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.log.errors import InvalidRecords, RecordError
from oncelog_server.log.results import Appended
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.verification import VerificationGuard
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Caller
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult

NONE: Final = ErrorCode.NONE
ACKS_ALL: Final = -1
TRANSACTION_VERSION_2: Final = 2
_ATTRIBUTES_LOW_BYTE: Final = 22

TransactionAnswer: TypeAlias = TransactionResult | Deferred[TransactionResult]
AddToTransaction: TypeAlias = Callable[[AddPartitions], TransactionAnswer]

# What a producer is told when its partitions are not in its transaction. Epochs are always 47 in
# Produce; whatever goes away by itself is retriable in every version.
ADD_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
# The same for clients that have added them before, and so do not know CONCURRENT_TRANSACTIONS here.
VERIFICATION_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    **ADD_ERRORS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
}


class PartitionAppend(msgspec.Struct, eq=False):
    """One partition of a request on its way: to be appended while `code` is NONE."""

    index: int
    records: memoryview | bytearray | None
    partition: Partition | None
    code: ErrorCode = NONE
    message: str | None = None
    appended: Appended | None = None
    guard: VerificationGuard | None = None
    # Of a transactional batch.
    header: BatchHeader | None = None
    # The records that made it be refused.
    record_errors: Sequence[RecordError] = ()

    def look_at_header(self) -> None:
        """Learn whose transactional batch it is."""
        assert self.records is not None
        self.header = read_header(self.records)

    @property
    def producer(self) -> tuple[int, int]:
        """Id and epoch of a transactional batch."""
        header = _header(self)
        return header.producer_id, header.producer_epoch

    def refuse(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        self.message = message or None
        self.record_errors = ()

    @property
    def is_transactional(self) -> bool:
        """By the batch's own flag, before anything else of it is looked at."""
        records = self.records
        return (
            records is not None
            and len(records) >= HEADER_SIZE
            and records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG != 0
        )


class Produce(msgspec.Struct, eq=False):
    """`appends` in the order of the request, `transactional` those of them with a transactional
    batch. `group_id`: whose transaction it is, if a group's. `verifies`: whether the coordinator is
    asked where the client has added the partitions itself."""

    appends: list[PartitionAppend]
    transactional: list[PartitionAppend]
    transactional_id: str | None
    acks: int
    adds_partitions: bool
    add_to_transaction: AddToTransaction
    now_ms: int
    group_id: str | None = None
    verifies: bool = True
    caller: Caller | None = None

    def run(self) -> Deferred[None] | None:
        """Everything that can be done now; None when all is known, else what comes later."""
        if self.transactional:
            if not self._check_transactional():
                return None
            if self.verifies or self.adds_partitions:
                unknown = [one for one in self.transactional if self.is_unknown(one)]
                if unknown:
                    return self._ask_first(unknown)
        return self._append_all()

    def _check_transactional(self) -> bool:
        transactional = self.transactional
        for append in transactional:
            append.look_at_header()
        if self.transactional_id is not None and len(transactional) == 1:
            return True
        code = self.wrong_transaction({one.producer for one in transactional})
        if code is NONE:
            return True
        for append in self.appends:
            append.refuse(code)
        return False

    def wrong_transaction(self, producers: Set[tuple[int, int]]) -> ErrorCode:
        """Return why batches of these producers (id and epoch) are not all of one transaction,
        which the request names (Z17, H48)."""
        if self.transactional_id is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else NONE

    # --- KIP-890: the coordinator first

    def is_unknown(self, append: PartitionAppend) -> bool:
        """Whether the producer's transaction has no batch in the partition yet."""
        return (
            append.partition is not None
            and append.code is NONE
            and not append.partition.has_open_transaction(*append.producer)
        )

    def ask(self, unknown: list[PartitionAppend]) -> TransactionAnswer:
        """Return what the coordinator answers for these partitions."""
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

    def _ask_first(self, unknown: list[PartitionAppend]) -> Deferred[None] | None:
        answer = self.ask(unknown)
        if isinstance(answer, TransactionResult):
            return self._append_known(unknown, answer)
        return self._append_later(unknown, answer)

    def _append_later(
        self, unknown: list[PartitionAppend], answer: Deferred[TransactionResult]
    ) -> Deferred[None] | None:
        # An answer that came at once cannot be about a transaction that has ended meanwhile.
        for append in unknown:
            assert append.partition is not None
            append.guard = append.partition.begin_verification(_header(append).producer_id)
        # The bytes are in the connection's read buffer: they must outlive this call.
        for append in self.appends:
            if append.records is not None:
                append.records = bytearray(append.records)

        def go_on(result: TransactionResult) -> Deferred[None] | None:
            try:
                return self._append_known(unknown, result)
            finally:
                self._end_verification(unknown)

        answer.on_abandon(lambda: self._end_verification(unknown))
        return then_ask(answer, go_on)

    def _append_known(
        self, unknown: list[PartitionAppend], result: TransactionResult
    ) -> Deferred[None] | None:
        """The coordinator has answered."""
        if result.code is not NONE:
            for one in unknown:
                self.refuse_added(one, result)
        elif self.adds_partitions:
            for one in unknown:
                _check_begins_at_zero(one)
        return self._append_all()

    def refuse_added(self, append: PartitionAppend, result: TransactionResult) -> None:
        """The coordinator refuses to have the partition in the transaction."""
        errors = ADD_ERRORS if self.adds_partitions else VERIFICATION_ERRORS
        append.refuse(errors.get(result.code, result.code), result.message)
        _remember_refused(append)

    def _end_verification(self, unknown: list[PartitionAppend]) -> None:
        for one in unknown:
            assert one.partition is not None
            assert one.guard is not None
            one.partition.end_verification(_header(one).producer_id, one.guard)

    # --- append and wait

    def _append_all(self) -> Deferred[None] | None:
        """None where every append is committed already, or need not be."""
        uncommitted = []
        for append in self.appends:
            if append.code is NONE:
                self._append(append)
                appended, partition = append.appended, append.partition
                if (
                    appended is not None
                    and partition is not None
                    and appended.last_offset >= partition.high_watermark
                ):
                    uncommitted.append(append)
        if not uncommitted or self.acks != ACKS_ALL:
            return None
        return _AllCommitted(uncommitted).done

    def _append(self, append: PartitionAppend) -> None:
        partition = append.partition
        assert partition is not None
        if not append.records:
            append.refuse(ErrorCode.INVALID_RECORD, "no batch")
            return
        try:
            if append.guard is not None:
                partition.check_guard(_header(append).producer_id, append.guard)
            if self.acks == ACKS_ALL:
                partition.check_in_sync_replicas()
            if partition.refused_sequences:
                _check_begins(append)
            append.appended = partition.append(append.records, now_ms=self.now_ms)
        except Refused as refused:
            append.refuse(refused.code, refused.message)
            if isinstance(refused, InvalidRecords):
                append.record_errors = refused.errors
            _remember_refused(append)


def _remember_refused(append: PartitionAppend) -> None:
    """If it will come again: what was sent behind it is on its way, see `_check_begins`."""
    assert append.partition is not None
    if append.code not in RETRIABLE or append.code is ErrorCode.CORRUPT_MESSAGE:
        return
    header = _readable_header(append)
    if header is not None and header.producer_id >= 0 and _is_unknown(append, header):
        append.partition.refused_sequences.refused(
            header.producer_id, header.producer_epoch, header.base_sequence
        )


def _check_begins(append: PartitionAppend) -> None:
    """Where the partition knows nothing of the producer, any sequence is a beginning: nobody else
    would notice that the batches before were refused (R11). Raises Refused."""
    assert append.partition is not None
    header = _readable_header(append)
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
    """The same of a producer of KIP-890 part 2, which has a new epoch in each transaction: batches
    before may also be still on their way."""
    header = _header(append)
    if header.base_sequence > 0 and _is_unknown(append, header):
        append.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, _missing(header, 0))


def _is_unknown(append: PartitionAppend, header: BatchHeader) -> bool:
    assert append.partition is not None
    return append.partition.log.producers.entry(header.producer_id) is None


def _missing(header: BatchHeader, first: int) -> str:
    return f"sequence {header.base_sequence} is the first here, and {first} is missing"


class _AllCommitted:
    """Completes when every append of a request is committed, or is known never to be."""

    def __init__(self, uncommitted: list[PartitionAppend]) -> None:
        # Its effect has taken place: the connection may serve the next request meanwhile.
        self.done: Deferred[None] = Deferred(ordered=True)
        self._missing = len(uncommitted)
        for one in uncommitted:
            assert one.partition is not None
            assert one.appended is not None
            one.partition.when_committed(one.appended.last_offset + 1, self._settle(one))

    def _settle(self, append: PartitionAppend) -> Callable[[ErrorCode], None]:
        def settled(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                append.refuse(code)
            self._missing -= 1
            if self._missing == 0:
                self.done.complete(None)

        return settled


def _header(append: PartitionAppend) -> BatchHeader:
    assert append.header is not None
    return append.header


def _readable_header(append: PartitionAppend) -> BatchHeader | None:
    """None where the bytes are no batch: the append says so."""
    assert append.records is not None
    if append.header is None:
        with suppress(CorruptRecords):
            return read_header(append.records)
    return append.header


def _topic_partition(append: PartitionAppend) -> TopicPartition:
    assert append.partition is not None
    return append.partition.topic_partition
