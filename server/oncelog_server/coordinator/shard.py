"""What both coordinators share: decide -> append -> replay (Kafka's coordinator-common).

A shard is the state of one partition of an internal topic. `decide`-style methods read the state
and return a `Decision`; the runtime appends its records, calls `replay` for each (for transactions
when they are committed, for groups at the local append), and releases the response once they are
committed. State that must survive is changed by `replay` alone, so live state and reloaded state
are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from oncelog_server.deferred import Deferred

R = TypeVar("R")


class CoordinatorRecord(NamedTuple):
    """One record for the internal topic. `value` None is a tombstone."""

    key: bytes
    value: bytes | None


class TransactionOfRecords(msgspec.Struct, frozen=True):
    """The producer a batch of records is written for: TxnOffsetCommit's records are
    transactional."""

    producer_id: int
    producer_epoch: int


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """What a core decided: records to append as one batch (none: answer at once), the response (or
    the Deferred that will get it), and what to do if the append fails or once it is committed."""

    response: R | Deferred[R]
    records: tuple[CoordinatorRecord, ...] = ()
    transaction: TransactionOfRecords | None = None
    # Called when the records' append failed (argument: the error code) and nothing was applied:
    # puts soft state (a rebalance) right, and returns the response to give instead, also where
    # `response` is a Deferred, completed or not.
    on_failure: Callable[[int], R] | None = None
    # Called once the records are committed, before the response is released: hands a decision to
    # those who wait for it elsewhere (the followers' parked SyncGroups). May complete `response`
    # itself.
    on_committed: Callable[[], None] | None = None


class Shard(Protocol):
    """What the runtime needs of a coordinator's state, whichever coordinator it is."""

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
