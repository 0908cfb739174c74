"""The sink's requests to a broker and their responses, with the fields that the model needs.

Requests and responses without a field are dataclasses, because all empty named tuples are equal.
With empty named tuples, the search of the model would treat different states as equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from oncelog_client.values import OffsetAndMetadata, TransactionMember
from oncelog_protocol.errors import ErrorCode


class Row(NamedTuple):
    """All rows of one task: the model does not distinguish them."""

    query_id: str
    batch_id: int
    partition: int


# --- requests


class InitProducerId(NamedTuple):
    """`generation`: the generation of the group that the producer belongs to, or None for a
    producer without a group. `is_two_phase`: the producer's transactions never time out
    (KIP-939)."""

    transactional_id: str
    generation: int | None = None
    is_two_phase: bool = False


class Produce(NamedTuple):
    producer: TransactionMember
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class FetchOffset:
    """A stable read of the sink's group offset: it waits for pending offsets."""


class TxnOffsetCommit(NamedTuple):
    """TxnOffsetCommit, together with the AddOffsetsToTxn that comes before it. AddOffsetsToTxn
    alone has no effect."""

    producer: TransactionMember
    offset: OffsetAndMetadata


class EndTxn(NamedTuple):
    """`bumps_epoch`: the producer uses transaction version 2. `members`: transactions that end
    together with the transaction of `producer`."""

    producer: TransactionMember
    is_commit: bool
    members: tuple[TransactionMember, ...] = ()
    bumps_epoch: bool = False


class Append(NamedTuple):
    """A record of the sink's log, in a transaction."""

    producer: TransactionMember
    record: bytes


class Describe(NamedTuple):
    """Read the producers of these ids, with or without an open transaction."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True)
class ListTransactions:
    """Read the open transactions."""


@dataclass(frozen=True)
class Look:
    """FetchOffset, ListTransactions and the newest record of the sink's log, all at one moment."""


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


# --- responses


class Refused(NamedTuple):
    """An error code. `member`: the id of the transaction that caused it, if an EndTxn names several
    transactions."""

    code: ErrorCode
    member: str | None = None


@dataclass(frozen=True)
class Unanswered:
    """No response: the broker may or may not have executed the request."""


@dataclass(frozen=True)
class Done:
    """A response without further contents."""


class Stored(NamedTuple):
    """The group offset, or None."""

    offset: OffsetAndMetadata | None


class Holders(NamedTuple):
    """The owners of transactional ids."""

    members: tuple[TransactionMember, ...]


class Seen(NamedTuple):
    stored: Stored
    opened: Holders
    newest: bytes | None


Reply = Refused | Unanswered | Done | Stored | Holders | Seen | TransactionMember
