"""The interface of a shard: decide -> append -> replay (Kafka's coordinator-common).

A shard is the state of one partition of an internal topic. A method that makes a decision
reads the state and returns a `Decision`. The runtime appends the records of the decision and calls
`replay` for each record: in a transaction shard when the records are committed, in a group shard at
the local append. The runtime sends the response once the records are committed. Only `replay` and
`replay_marker` change state that must survive a restart, so live state and reloaded state are the
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
    """One record for the internal topic. A record with `value` None is a tombstone."""

    key: bytes
    value: bytes | None


class TransactionOfRecords(msgspec.Struct, frozen=True):
    """The producer of a batch of transactional records. Only TxnOffsetCommit writes such
    records."""

    producer_id: int
    producer_epoch: int


class Park(msgspec.Struct, frozen=True):
    """Stands for a later response. The shard keeps the response under `key`, and an effect of
    another decision releases it."""

    key: tuple[str | int, ...]


# An action that a decision causes, besides its records. Each effect is a frozen struct of the
# coordinator that uses it.
Effect = msgspec.Struct


class EffectRow(NamedTuple, Generic[S]):
    """The actions of an effect. `taken` runs before the records are appended. `failed` runs if the
    records are not appended or never committed. `committed` runs after the replay of the records,
    and before the response. Without records, `committed` runs at once."""

    taken: Callable[[S, Any], None] | None = None
    # The function for `failed` also gets the error code.
    failed: Callable[[S, Any, int], None] | None = None
    committed: Callable[[S, Any], None] | None = None


# The actions of each effect. `carry_out` raises KeyError for an effect without a row.
EffectTable = Mapping[type[Effect], EffectRow[S]]
TAKEN, FAILED, COMMITTED = range(3)


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """The decision of a shard. It has the response (or the key of a parked response), the records
    and the effects. The runtime appends the records as one batch. Without records, the runtime
    responds at once. A decision changes no state by itself."""

    response: R | Deferred[R] | Park
    records: tuple[CoordinatorRecord, ...] = ()
    transaction: TransactionOfRecords | None = None
    effects: tuple[Effect, ...] = ()
    # Returns the response, from the error code, if the records are not appended or never committed.
    # The function changes no state. None: the response is `response` even after a failure.
    failed: Callable[[int], R] | None = None


class Replica(Protocol):
    """State that is built from the records of a partition."""

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        """Apply one record, live or at load. Only this method and `replay_marker` change durable
        state. A record with an unknown key version is skipped. Raises ValueError for an undecodable
        record. If this happens at load, the shard is refused."""
        ...

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Apply the end marker of a transaction in this partition. Only group shards have
        transactional records."""
        ...


class Shard(Replica, Protocol):
    """The state of a coordinator, as the runtime sees it."""

    def park(self, place: Park, answer: Deferred[Any]) -> None:
        """Keep `answer`, the parked response of `place`."""
        ...

    def unpark(self, place: Park, answer: Deferred[Any]) -> None:
        """Forget a parked response, because the decision has failed and the runtime responds."""
        ...
