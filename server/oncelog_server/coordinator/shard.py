"""What both coordinators share: decide -> append -> replay (Kafka's coordinator-common).

A shard is the state of one partition of an internal topic. `decide`-style methods read the state
and return a `Decision`; the runtime appends its records, calls `replay` for each (for transactions
when they are committed, for groups at the local append), and releases the response once they are
committed. State that must survive is changed by `replay` alone, so live state and reloaded state
are the same.
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
    """The producer a batch of records is written for: TxnOffsetCommit's records are
    transactional."""

    producer_id: int
    producer_epoch: int


class Park(msgspec.Struct, frozen=True):
    """In place of a response that comes later: the shard keeps it under `key`, and an effect of
    another decision releases it."""

    key: tuple[str | int, ...]


# A frozen value of the coordinator's own.
Effect = msgspec.Struct


class EffectRow(NamedTuple, Generic[S]):
    """What an effect does at each moment of its decision: `taken`, before its records are appended;
    `failed`, where they are not appended or never committed; `committed`, after they are replayed
    (without records at once), before the response."""

    taken: Callable[[S, Any], None] | None = None
    # Also gets the error code.
    failed: Callable[[S, Any, int], None] | None = None
    committed: Callable[[S, Any], None] | None = None


# A missing row is an error.
EffectTable = Mapping[type[Effect], EffectRow[S]]
TAKEN, FAILED, COMMITTED = range(3)


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """What a core decided: the response, or where it is parked; records to append as one batch
    (none: respond at once); effects. To decide changes nothing."""

    response: R | Deferred[R] | Park
    records: tuple[CoordinatorRecord, ...] = ()
    transaction: TransactionOfRecords | None = None
    effects: tuple[Effect, ...] = ()
    # The response where the append failed, from its error code. None: `response`. It only reads.
    failed: Callable[[int], R] | None = None


class Replica(Protocol):
    """State that is built from the records of a partition."""

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        """Apply one record, live or at load. The only writer of durable state. Unknown key versions
        are skipped by the caller's decoder; an undecodable record raises ValueError (the shard is
        refused)."""
        ...

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """A transaction's end marker in this partition (only group shards hold transactional
        records)."""
        ...


class Shard(Replica, Protocol):
    """What the runtime needs of a coordinator's state, whichever coordinator it is."""

    def park(self, place: Park, answer: Deferred[Any]) -> None:
        """Keep a response that a decision has parked."""
        ...

    def unpark(self, place: Park, answer: Deferred[Any]) -> None:
        """Forget it: the decision has failed, and the runtime gives the response."""
        ...
