"""The interface of a shard: decide -> append -> replay (Kafka's coordinator-common).

A shard is the state of one partition of an internal topic. `decide`-style methods read the state
and return a `Decision`; the runtime appends its records, calls `replay` for each (for transactions
when they are committed, for groups at the local append), and releases the response once they are
committed. Only `replay` changes state that must survive, so live state and reloaded state are the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from oncelog_server.deferred import Deferred

R = TypeVar("R")
S = TypeVar("S")


class CoordinatorRecord(NamedTuple):
    """One record for the internal topic. `value` None is a tombstone."""

    key: bytes
    value: bytes | None


class TransactionOfRecords(msgspec.Struct, frozen=True):
    """The producer of a batch of records: the records of TxnOffsetCommit are transactional."""

    producer_id: int
    producer_epoch: int


class Park(msgspec.Struct, frozen=True):
    """Stands for a later response. The shard keeps the response under `key`, and an effect of
    another decision releases it."""

    key: tuple[str | int, ...]


# A frozen value of the coordinator's own.
Effect = msgspec.Struct


class EffectRow(NamedTuple, Generic[S]):
    """The actions of an effect: `taken`, before the records are appended; `failed`, if they are not
    appended or never committed; `committed`, after their replay (at once without records) and
    before the response."""

    taken: Callable[[S, Any], None] | None = None
    # The function for `failed` also gets the error code.
    failed: Callable[[S, Any, int], None] | None = None
    committed: Callable[[S, Any], None] | None = None


# A missing row is an error.
EffectTable = Mapping[type[Effect], EffectRow[S]]
TAKEN, FAILED, COMMITTED = range(3)


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """The decision of a core: the response, or the key of a parked one; the records to append as
    one batch (none: respond at once); effects. A decision changes no state by itself."""

    response: R | Deferred[R] | Park
    records: tuple[CoordinatorRecord, ...] = ()
    transaction: TransactionOfRecords | None = None
    effects: tuple[Effect, ...] = ()
    # Returns the response after a failed append, from its error code, without a change of state.
    # None: the response is `response` even then.
    failed: Callable[[int], R] | None = None


class Replica(Protocol):
    """State that is built from the records of a partition."""

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        """Apply one record, live or at load. Nothing else changes durable state. The caller's
        decoder skips unknown key versions. An undecodable record raises ValueError (the shard is
        refused)."""
        ...

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Apply a transaction's end marker in this partition (only group shards have transactional
        records)."""
        ...


class Shard(Replica, Protocol):
    """The state of a coordinator, as the runtime sees it."""

    def park(self, place: Park, answer: Deferred[Any]) -> None:
        """Keep a parked response."""
        ...

    def unpark(self, place: Park, answer: Deferred[Any]) -> None:
        """Forget a parked response: the decision has failed, and the runtime responds."""
        ...
