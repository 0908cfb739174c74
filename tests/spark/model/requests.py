"""What the sink asks of a broker, and what it hears: the requests of the protocol, without what a
model needs not to know of them."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_client.values import OffsetAndMetadata, TransactionMember
from oncelog_protocol.errors import ErrorCode


class Row(NamedTuple):
    """What one task writes, as one."""

    query_id: str
    batch_id: int
    partition: int


# --- requests


class InitProducerId(NamedTuple):
    """`generation`: None for a producer in no group. `is_two_phase`: its transactions never time
    out (KIP-939)."""

    transactional_id: str
    generation: int | None = None
    is_two_phase: bool = False


class Produce(NamedTuple):
    producer: TransactionMember
    rows: tuple[Row, ...]


class FetchOffset(NamedTuple):
    """The sink's group offset, stable: without what a transaction holds back."""


class TxnOffsetCommit(NamedTuple):
    """With AddOffsetsToTxn before it, which can do nothing by itself."""

    producer: TransactionMember
    offset: OffsetAndMetadata


class EndTxn(NamedTuple):
    """`bumps_epoch`: the producer speaks transaction version 2. `members`: what is decided together
    with it."""

    producer: TransactionMember
    is_commit: bool
    members: tuple[TransactionMember, ...] = ()
    bumps_epoch: bool = False


class Append(NamedTuple):
    """A record of the sink's log, in a transaction."""

    producer: TransactionMember
    record: bytes


class Describe(NamedTuple):
    """Which producers have these ids, whether or not something of theirs is open."""

    transactional_ids: tuple[str, ...]


class ListTransactions(NamedTuple):
    """Those that are open."""


class Look(NamedTuple):
    """FetchOffset, ListTransactions and the newest record of the sink's log, at one moment."""


Request = (
    InitProducerId
    | Produce
    | FetchOffset
    | TxnOffsetCommit
    | EndTxn
    | Append
    | Describe
    | ListTransactions
    | Look
)


# --- answers


class Refused(NamedTuple):
    """`member`: because of which of those that were to be decided together."""

    code: ErrorCode
    member: str | None = None


class Unanswered(NamedTuple):
    """Whether it was executed is unknown."""


class Done(NamedTuple):
    """For whatever has no more to say."""


class Stored(NamedTuple):
    """The group offset. `None`: there is none."""

    offset: OffsetAndMetadata | None


class Holders(NamedTuple):
    """The owner of each."""

    members: tuple[TransactionMember, ...]


class Seen(NamedTuple):
    stored: Stored
    opened: Holders
    newest: bytes | None


Reply = Refused | Unanswered | Done | Stored | Holders | Seen | TransactionMember
