"""A data partition: the real producer state and verification guards, with a log of entries.

An append is committed at once. Only the coordinator's log has separate steps for durability.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, TypeVar

from oncelog_protocol.records.batch import BatchHeader
from oncelog_server.log.producers import Producers
from oncelog_server.partition.verification import VerificationGuard, VerificationGuards

T = TypeVar("T")

_TRANSACTIONAL = 16
_NOW_MS = 1


class Ghost(NamedTuple):
    """The client and the transaction of a record. The checks use them, but no broker knows them."""

    client: int
    number: int


class Entry(NamedTuple):
    """A record of a transaction, or a marker if `committed` is not None."""

    producer_id: int
    epoch: int
    sequence: int = -1
    ghost: Ghost | None = None
    committed: bool | None = None
    coordinator_epoch: int = -1


class PartitionModel:
    """A partition with its log, producer state and guards."""

    __slots__ = ("guards", "log", "producers")

    def __init__(self) -> None:
        self.log: tuple[Entry, ...] = ()
        self.producers = Producers()
        self.guards = VerificationGuards()

    def clone(self, guards: dict[int, VerificationGuard]) -> PartitionModel:
        """Return a copy. Add the copy of each guard to `guards`, by `id()` of the old guard, for
        other objects that hold the guard."""
        twin = PartitionModel.__new__(PartitionModel)
        twin.log = self.log
        twin.producers = _clone_producers(self.producers)
        twin.guards = VerificationGuards()
        for producer_id, guard in self.guards._by_producer_id.items():
            twin.guards._by_producer_id[producer_id] = guards.setdefault(id(guard), copy_of(guard))
        return twin

    def append(self, producer: tuple[int, int], sequence: int, ghost: Ghost) -> bool:
        """Append a record. Return False for a duplicate. Raises AppendError if the partition
        refuses the record."""
        header = BatchHeader(
            0, 70, 0, 2, 0, _TRANSACTIONAL, 0, 0, 0, producer[0], producer[1], sequence, 1
        )
        if self.producers.check_data(header, from_client=True) is not None:
            return False
        self.producers.data_appended(header, len(self.log), 0, 0, _NOW_MS)
        self.log += (Entry(*producer, sequence, ghost),)
        self.producers.on_high_watermark(len(self.log))
        return True

    def append_marker(
        self, producer: tuple[int, int], committed: bool, coordinator_epoch: int, version: int
    ) -> None:
        """Append a marker. Raises AppendError if the partition refuses it."""
        self.producers.check_marker(*producer, coordinator_epoch, version)
        offset = len(self.log)
        completed = self.producers.completed_by(producer[0], offset=offset, committed=committed)
        self.log += (Entry(*producer, committed=committed, coordinator_epoch=coordinator_epoch),)
        self.producers.marker_appended(
            *producer, coordinator_epoch, completed, timestamp=0, now_ms=_NOW_MS
        )
        self.guards.clear(producer[0])
        self.producers.on_high_watermark(len(self.log))

    def has_open_transaction(self, producer: tuple[int, int]) -> bool:
        entry = self.producers.entry(producer[0])
        return (
            entry is not None
            and entry.producer_epoch == producer[1]
            and entry.current_txn_first_offset >= 0
        )

    def last_stable_offset(self) -> int:
        unstable = self.producers.first_unstable_offset(len(self.log))
        return len(self.log) if unstable is None else unstable

    def key(self) -> tuple[object, ...]:
        """Return the log and the producers in verification. They determine the other producer
        state."""
        asked = self.guards._by_producer_id
        return (self.log, tuple((number, guard.asking) for number, guard in sorted(asked.items())))


def copy_of(guard: VerificationGuard) -> VerificationGuard:
    twin = VerificationGuard()
    twin.asking = guard.asking
    return twin


def _clone_producers(producers: Producers) -> Producers:
    twin = Producers.__new__(Producers)
    for name, value in vars(producers).items():
        setattr(twin, name, dict(value) if isinstance(value, dict) else value)
    for producer_id, entry in producers._entries.items():
        other = twin._entries[producer_id] = shallow_copy(entry)
        other.batches = list(entry.batches)
    return twin


def shallow_copy(value: T) -> T:
    """Return a shallow copy. For a dataclass with slots, this is faster than copy.copy."""
    kind = type(value)
    if hasattr(kind, "__copy__"):
        return copy(value)
    twin = kind.__new__(kind)
    for name in kind.__slots__:  # type: ignore[attr-defined]  # T has them
        setattr(twin, name, getattr(value, name))
    return twin
