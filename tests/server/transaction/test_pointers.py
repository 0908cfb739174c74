"""The pointers of a shard to the groups of its transactional ids: only replay changes them."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.transaction_pointer import (
    TransactionPointerKey,
    TransactionPointerValue,
    decode_transaction_pointer_key,
    decode_transaction_pointer_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.groups import to_record as group_record
from oncelog_server.transaction.pointers import Pointer, TransactionPointers, to_record
from oncelog_server.transaction.shard import TransactionShard


def shard(ids: Counter[str] | None = None) -> TransactionShard:
    return TransactionShard(0, max_timeout_ms=900_000, grouped=ids)


def test_the_record_has_the_type_10001_and_the_group() -> None:
    record = to_record("t", "g", 7)
    assert record.key[:2] == (10_001).to_bytes(2)
    assert decode_transaction_pointer_key(record.key) == TransactionPointerKey("t")
    assert record.value is not None
    assert decode_transaction_pointer_value(record.value) == TransactionPointerValue("g", 7)


def test_replay_keeps_the_last_pointer_with_its_offset() -> None:
    ids: Counter[str] = Counter()
    found = shard(ids)
    found.replay(to_record("t", "g", 7), offset=3, transaction=None)
    found.replay(to_record("t", "h", 8), offset=5, transaction=None)
    assert found.pointers.get("t") == Pointer("h", 5, 8)
    assert ids == {"t": 1}
    (tombstone,) = found.pointer_removal("t")
    found.replay(tombstone, offset=6, transaction=None)
    assert found.pointers.get("t") is None
    assert found.pointer_removal("t") == ()
    assert not ids


def test_a_record_of_a_group_is_no_pointer() -> None:
    found = shard()
    membership = GroupAssignment("g", 1, frozenset())
    found.replay(group_record("t", membership), offset=0, transaction=None)
    assert found.pointers.get("t") is None
    assert found.group_of("t") == "g"


def test_a_damaged_pointer_is_refused() -> None:
    with pytest.raises(ProtocolError):
        shard().replay(CoordinatorRecord(b"\x27\x11\x05x", None), offset=0, transaction=None)


def test_an_id_counts_while_its_record_is_in_flight_and_not_after_the_unload() -> None:
    ids: Counter[str] = Counter()
    pointers = TransactionPointers(ids)
    pointers.expect("t")
    assert (pointers.is_pending("t"), ids["t"]) == (True, 1)
    pointers.replay(to_record("t", "g", 7), 3)
    assert ids["t"] == 2
    pointers.settle("t")
    assert (pointers.is_pending("t"), ids["t"]) == (False, 1)
    pointers.expect("other")
    pointers.on_unloaded()
    assert not ids
    pointers.settle("other")
    assert not ids
