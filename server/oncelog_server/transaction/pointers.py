"""The groups of the transactional ids that hash to one shard of a cluster (KIP-447, early draft).

An id in a consumer group is in the shard of the group, which another broker may coordinate. The
shard of the id has a pointer to the group. A group takes an id only after the pointer to the group
is committed, so the pointer always names the group that has the id, or that was about to take it.
Each pointer has the offset of its record. A request that knows a pointer by its offset changes
nothing if there is a newer pointer. A single broker has no pointers, because it has all shards.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from oncelog_protocol.internal.transaction_pointer import (
    TransactionPointerKey,
    TransactionPointerValue,
    decode_transaction_pointer_key,
    decode_transaction_pointer_value,
    encode_transaction_pointer_key,
    encode_transaction_pointer_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.coordinator.shard import CoordinatorRecord

NO_POINTER = -1


class Pointer(NamedTuple):
    """The group of a transactional id, and the offset and time (wall clock) of the record."""

    group_id: str
    offset: int
    at_ms: int


class TransactionPointers:
    """Pointers by transactional id. `ids` counts the ids, as in TransactionGroups."""

    __slots__ = ("_claims", "_ids", "_pending", "_pointers")

    def __init__(self, ids: Counter[str]) -> None:
        self._pointers: dict[str, Pointer] = {}
        # Ids with a record of a pointer that is not committed yet.
        self._pending: set[str] = set()
        # By id that a group of this shard has taken: the offset of the pointer to the group, in the
        # shard of the id. It is in memory only.
        self._claims: dict[str, int] = {}
        self._ids = ids

    # --- replay

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        """Apply a record. Records of other types are skipped. Raises ValueError for an invalid
        record."""
        try:
            transactional_id = decode_transaction_pointer_key(record.key).transactional_id
        except UnknownRecordVersion:
            return
        known = self._pointers.pop(transactional_id, None)
        if record.value is None:
            if known is not None:
                self._discount(transactional_id)
            return
        value = decode_transaction_pointer_value(record.value)
        self._pointers[transactional_id] = Pointer(value.group_id, offset, value.at_ms)
        if known is None:
            self._ids[transactional_id] += 1

    def _discount(self, transactional_id: str) -> None:
        self._ids[transactional_id] -= 1
        if not self._ids[transactional_id]:
            del self._ids[transactional_id]

    def on_unloaded(self) -> None:
        """Remove all ids, because another broker leads the shard now."""
        for transactional_id in [*self._pointers, *self._pending]:
            self._discount(transactional_id)
        self._pointers.clear()
        self._pending.clear()

    # --- questions

    def get(self, transactional_id: str) -> Pointer | None:
        return self._pointers.get(transactional_id)

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    def ids(self) -> list[str]:
        """Return the ids that have a pointer now."""
        return list(self._pointers)

    # --- records in flight

    def expect(self, transactional_id: str) -> None:
        """Count a record of a pointer that was appended and is not committed yet."""
        self._pending.add(transactional_id)
        self._ids[transactional_id] += 1

    def settle(self, transactional_id: str) -> None:
        """Undo `expect`, because the record was committed or never will be. After `on_unloaded`
        there is nothing to undo."""
        if transactional_id in self._pending:
            self._pending.discard(transactional_id)
            self._discount(transactional_id)

    # --- the group's side

    def note_claim(self, transactional_id: str, offset: int) -> None:
        """Remember the pointer by which a group of this shard takes an id."""
        self._claims[transactional_id] = offset

    def claim_of(self, transactional_id: str) -> int:
        """Return the offset of the pointer by which a group of this shard has taken the id, or
        NO_POINTER if it is unknown."""
        return self._claims.get(transactional_id, NO_POINTER)

    def forget_claim(self, transactional_id: str) -> None:
        self._claims.pop(transactional_id, None)

    # --- records

    def removal(self, transactional_id: str) -> tuple[CoordinatorRecord, ...]:
        """Return the tombstone of a pointer. An id without a pointer needs none."""
        if transactional_id not in self._pointers:
            return ()
        return (CoordinatorRecord(_key(transactional_id), None),)


def to_record(transactional_id: str, group_id: str, at_ms: int) -> CoordinatorRecord:
    """Return the record of a pointer for `__transaction_state`."""
    value = TransactionPointerValue(group_id, at_ms)
    return CoordinatorRecord(_key(transactional_id), encode_transaction_pointer_value(value))


def _key(transactional_id: str) -> bytes:
    return encode_transaction_pointer_key(TransactionPointerKey(transactional_id))
