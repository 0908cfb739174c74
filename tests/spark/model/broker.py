"""A broker as the sink sees it: transactions of a group, the group's offset, the sink's log, and
the rows that a read_committed reader sees. The broker is linearizable: a request is one step.

The module is written from the KIPs, and no test compares it with the real coordinator. The tests in
`tests/spark/sink`, `record_commit` and `faults` run the sink's machines against the real one.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from oncelog_client.values import OffsetAndMetadata, TransactionMember
from oncelog_protocol.errors import ErrorCode

from .requests import (
    Append,
    Describe,
    Done,
    EndTxn,
    FetchOffset,
    Holders,
    InitProducerId,
    ListTransactions,
    Look,
    Produce,
    Refused,
    Reply,
    Request,
    Row,
    Seen,
    Stored,
    TxnOffsetCommit,
)

SUCCESS = Done()
FENCED = Refused(ErrorCode.PRODUCER_FENCED)
OUTDATED = Refused(ErrorCode.ILLEGAL_GENERATION)
INVALID_STATE = Refused(ErrorCode.INVALID_TXN_STATE)
UNKNOWN = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class Decided(NamedTuple):
    """The end of the previous transaction, with its epoch. A retry of that end gets success."""

    epoch: int
    is_commit: bool
    members: tuple[TransactionMember, ...]


class Transaction(NamedTuple):
    """The state of one transactional id. `generation` is None for a producer without a group."""

    producer_id: int
    epoch: int = 0
    generation: int | None = None
    is_two_phase: bool = False
    is_open: bool = False
    rows: tuple[Row, ...] = ()
    offset: OffsetAndMetadata | None = None
    record: bytes | None = None
    decided: Decided | None = None

    def empty(self, *, epoch: int, decided: Decided | None = None) -> Transaction:
        return Transaction(
            self.producer_id, epoch, self.generation, self.is_two_phase, decided=decided
        )


class Broker(NamedTuple):
    """`transactions`: sorted by id. `newest`: the last record of the sink's log. `lives`: how often
    all idle ids have expired; an expired id returns with a new producer id."""

    transactions: tuple[tuple[str, Transaction], ...] = ()
    newest_generation: int = -1
    stored: OffsetAndMetadata | None = None
    newest: bytes | None = None
    visible: tuple[Row, ...] = ()
    lives: int = 0

    def transaction(self, transactional_id: str) -> Transaction | None:
        for name, transaction in self.transactions:
            if name == transactional_id:
                return transaction
        return None

    def with_transactions(self, changed: dict[str, Transaction]) -> Broker:
        kept = {**dict(self.transactions), **changed}
        return self._replace(transactions=tuple(sorted(kept.items())))

    @property
    def opened(self) -> tuple[TransactionMember, ...]:
        return tuple(
            TransactionMember(name, transaction.producer_id, transaction.epoch)
            for name, transaction in self.transactions
            if transaction.is_open
        )


def execute(broker: Broker, request: Request) -> tuple[Broker, Reply]:
    """Return the broker after a request, and its response."""
    match request:
        case InitProducerId():
            return _init_producer_id(broker, request)
        case FetchOffset():
            return broker, Stored(broker.stored)
        case ListTransactions():
            return broker, Holders(broker.opened)
        case Look():
            return broker, Seen(Stored(broker.stored), Holders(broker.opened), broker.newest)
        case Describe(ids):
            found = [(name, broker.transaction(name)) for name in ids]
            return broker, Holders(
                tuple(
                    TransactionMember(name, producer.producer_id, producer.epoch)
                    for name, producer in found
                    if producer is not None
                )
            )
        case EndTxn():
            return _end(broker, request)
        case _:
            return _add(broker, request)


def _init_producer_id(broker: Broker, request: InitProducerId) -> tuple[Broker, Reply]:
    """Assign a producer id and epoch. A newer generation aborts and fences open
    transactions of older ones."""
    name, generation = request.transactional_id, request.generation
    changed: dict[str, Transaction] = {}
    newest = broker.newest_generation
    if generation is not None:
        if generation < newest:
            return broker, OUTDATED
        newest = generation
        changed = {
            other: transaction.empty(epoch=transaction.epoch + 1)
            for other, transaction in broker.transactions
            if transaction.is_open
            and not transaction.is_two_phase
            and transaction.generation is not None
            and transaction.generation < generation
        }
    known = broker.transaction(name)
    if known is None:
        # The producer id does not depend on the order in which ids are initialized. So two orders
        # with the same result are one state of the model.
        known = Transaction(crc32(f"{name} {broker.lives}".encode()), epoch=-1)
    changed[name] = Transaction(
        known.producer_id, known.epoch + 1, generation, request.is_two_phase
    )
    broker = broker._replace(newest_generation=newest).with_transactions(changed)
    return broker, TransactionMember(name, known.producer_id, known.epoch + 1)


def holder(broker: Broker, producer: TransactionMember) -> Transaction | Refused:
    """Return the transaction of a producer, or the error of a producer that may not continue."""
    transaction = broker.transaction(producer.transactional_id)
    if transaction is None or transaction.producer_id != producer.producer_id:
        return UNKNOWN
    if transaction.generation is not None and transaction.generation < broker.newest_generation:
        return OUTDATED
    if transaction.epoch != producer.producer_epoch:
        return FENCED
    return transaction


def _add(broker: Broker, request: Produce | TxnOffsetCommit | Append) -> tuple[Broker, Reply]:
    transaction = holder(broker, request.producer)
    if isinstance(transaction, Refused):
        return broker, transaction
    transaction = transaction._replace(is_open=True, decided=None)
    match request:
        case Produce(_, rows):
            # A real broker drops a resent batch, which it recognizes by its sequence numbers.
            new = tuple(row for row in rows if row not in transaction.rows)
            transaction = transaction._replace(rows=transaction.rows + new)
        case TxnOffsetCommit(_, offset):
            transaction = transaction._replace(offset=offset)
        case Append(_, record):
            transaction = transaction._replace(record=record)
    name = request.producer.transactional_id
    return broker.with_transactions({name: transaction}), SUCCESS


def _end(broker: Broker, request: EndTxn) -> tuple[Broker, Reply]:
    """End the producer's transaction and those of the members in one step, or end none."""
    producer = request.producer
    repeated = Decided(producer.producer_epoch, request.is_commit, request.members)
    if request.bumps_epoch and _is_retry(broker, producer, repeated):
        return broker, SUCCESS
    transaction = holder(broker, producer)
    if isinstance(transaction, Refused):
        return broker, transaction
    if not transaction.is_open:
        retried = not request.bumps_epoch and transaction.decided == repeated
        return broker, SUCCESS if retried else INVALID_STATE
    ended = [(producer.transactional_id, transaction, request.bumps_epoch)]
    for member in request.members:
        found = holder(broker, member)
        if isinstance(found, Transaction) and not found.is_open:
            found = INVALID_STATE
        if isinstance(found, Refused):
            return broker, found._replace(member=member.transactional_id)
        # Executors use transaction version 2, which bumps a member's epoch at the end of its
        # transaction.
        ended.append((member.transactional_id, found, True))
    changed = {
        name: entry.empty(
            epoch=entry.epoch + bumps,
            decided=repeated if name == producer.transactional_id else None,
        )
        for name, entry, bumps in ended
    }
    broker = broker.with_transactions(changed)
    if request.is_commit:
        for _, entry, _ in ended:
            broker = _show(broker, entry)
    return broker, SUCCESS


def _is_retry(broker: Broker, producer: TransactionMember, repeated: Decided) -> bool:
    """Return True for a retry (KIP-890): this producer's own EndTxn has bumped the stored epoch."""
    transaction = broker.transaction(producer.transactional_id)
    return (
        transaction is not None
        and transaction.producer_id == producer.producer_id
        and transaction.epoch == producer.producer_epoch + 1
        and not transaction.is_open
        and transaction.decided == repeated
    )


def _show(broker: Broker, transaction: Transaction) -> Broker:
    return broker._replace(
        stored=transaction.offset or broker.stored,
        newest=transaction.record or broker.newest,
        visible=tuple(sorted(broker.visible + transaction.rows)),
    )


# --- events without a request


def time_out(broker: Broker, transactional_id: str) -> Broker:
    """Abort a transaction at its timeout, and fence its producer, as the coordinator does."""
    transaction = broker.transaction(transactional_id)
    assert transaction is not None
    return broker.with_transactions(
        {transactional_id: transaction.empty(epoch=transaction.epoch + 1)}
    )


def rest(broker: Broker, *, offsets_expire: bool = False) -> Broker:
    """Let more time pass than the retention of transactional ids, and with `offsets_expire` than
    the retention of group offsets. Open two-phase transactions are kept, other open transactions
    are aborted. A client with an expired id gets a new producer id."""
    kept = tuple(
        (name, transaction)
        for name, transaction in broker.transactions
        if transaction.is_open and transaction.is_two_phase
    )
    return broker._replace(
        transactions=kept,
        newest_generation=max((entry.generation or -1 for _, entry in kept), default=-1),
        stored=None if offsets_expire else broker.stored,
        lives=broker.lives + 1,
    )
