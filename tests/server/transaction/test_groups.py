"""The consumer groups of transactional ids, as the transaction coordinator replays them from their
records. A group remembers its newest generation."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog_protocol.internal.transaction_group import (
    TransactionGroupKey,
    decode_transaction_group_key,
    decode_transaction_group_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.transaction.groups import GroupAssignment, TransactionGroups, to_record
from tests.server.transaction.grouped.driver import IN0, IN1, IN2

OLD = GroupAssignment("g", 1, frozenset({IN0, IN1}))
NEW = GroupAssignment("g", 2, frozenset({IN2}))


def loaded(*records: CoordinatorRecord) -> TransactionGroups:
    groups = TransactionGroups()
    for record in records:
        groups.replay(record)
    return groups


def test_the_record_has_the_layout_of_the_early_draft_of_kip_447() -> None:
    record = to_record("t", OLD)
    assert decode_transaction_group_key(record.key) == TransactionGroupKey("g", "t")
    assert record.key[:2] == (10_000).to_bytes(2, "big")
    assert record.value is not None
    value = decode_transaction_group_value(record.value)
    assert value.generation_id == 1
    assert [
        (assigned_partition.topic, assigned_partition.partitions)
        for assigned_partition in value.assigned_partitions
    ] == [("in", [0, 1])]


def test_the_groups_generation_is_the_newest_of_its_ids() -> None:
    groups = loaded(to_record("a", OLD), to_record("b", NEW))
    assert groups.newest_generation("g") == 2
    assert groups.is_outdated("a")
    assert not groups.is_outdated("b")
    assert not groups.is_outdated("in no group")
    assert groups.memberships["a"] == OLD


def test_a_shard_led_by_another_broker_has_no_generations() -> None:
    groups = loaded(to_record("a", OLD), to_record("b", NEW))
    for record in groups.removal(["b"]):
        groups.replay(record)
    assert groups.newest_generation("g") == 2
    groups.on_unloaded()
    assert groups.newest_generation("g") == -1


def test_pending_generations_end_with_the_leadership_of_the_shard() -> None:
    groups = TransactionGroups()
    groups.expect("a", OLD)
    groups.expect("b", NEW)
    assert groups.coming_generation("g") == 2
    groups.settle("b", NEW)
    assert groups.coming_generation("g") == 1
    groups.on_unloaded()
    assert groups.coming_generation("g") == -1
    groups.expect("b", NEW)
    groups.settle("a", OLD)
    assert groups.coming_generation("g") == 2
    groups.settle("b", NEW)
    assert groups.coming_generation("g") == -1


def test_a_tombstone_removes_an_id_and_a_group_ends_with_its_last_id() -> None:
    groups = loaded(to_record("a", OLD), to_record("b", OLD))
    (removal,) = groups.removal(["b"])
    assert removal.value is None
    groups.replay(removal)
    assert groups.removal(["b"]) == ()
    assert list(groups.memberships) == ["a"]
    groups.forget("a")
    groups.forget("a")
    assert groups.newest_generation("g") == -1
    assert not groups.memberships


def test_leaving_does_not_lower_the_newest_generation() -> None:
    """Otherwise the coordinator would accept zombies of older generations after a restart."""
    records = [to_record("a", OLD), to_record("b", NEW)]
    groups = loaded(*records)
    records += groups.removal(["b"])
    groups = loaded(*records)
    assert groups.is_outdated("a")
    assert groups.newest_generation("g") == 2
    # The group keeps its newest generation until its last id leaves.
    records.append(to_record("c", NEW))
    assert len(loaded(*records).removal(["c"])) == 1
    removal = loaded(*records).removal(["a", "c"])
    assert len(removal) == 3
    assert loaded(*records, *removal).newest_generation("g") == -1


def test_an_id_that_joins_another_group_leaves_its_former_group() -> None:
    groups = loaded(to_record("a", OLD))
    other = GroupAssignment("h", 7, frozenset())
    removal, registration = groups.registration("a", other)
    assert removal == CoordinatorRecord(to_record("a", OLD).key, None)
    groups.replay(registration)
    # A compacted log may still have the tombstone of the group that the id has left.
    groups.replay(removal)
    assert groups.memberships == {"a": other}
    assert groups.newest_generation("g") == -1


def test_an_unchanged_registration_needs_no_record() -> None:
    groups = loaded(to_record("a", OLD))
    assert groups.registration("a", OLD) == ()
    assert groups.registration("a", OLD._replace(generation_id=3)) == (
        to_record("a", OLD._replace(generation_id=3)),
    )


def test_the_ids_of_all_shards_are_known_until_a_shard_is_unloaded() -> None:
    ids: Counter[str] = Counter()
    first, second = TransactionGroups(ids), TransactionGroups(ids)
    first.replay(to_record("a", OLD))
    second.replay(to_record("b", NEW))
    assert ids.keys() == {"a", "b"}
    first.on_unloaded()
    assert ids.keys() == {"b"}


def test_an_id_is_known_while_a_shard_has_it_or_has_a_pending_record_of_it() -> None:
    ids: Counter[str] = Counter()
    first, second = TransactionGroups(ids), TransactionGroups(ids)
    first.expect("a", OLD)
    assert "a" in ids
    first.settle("a", OLD)
    assert "a" not in ids
    first.expect("a", OLD)
    first.on_unloaded()
    assert "a" not in ids
    # A load may replay the shard of the current group before the shard of the former group.
    second.replay(to_record("a", NEW))
    second.replay(to_record("a", NEW._replace(generation_id=3)))
    first.replay(to_record("a", OLD))
    first.forget("a")
    assert "a" in ids
    second.forget("a")
    assert "a" not in ids


@pytest.mark.parametrize("cut", [0, 1, 3, 9])
def test_a_value_that_cannot_be_read_is_an_error(cut: int) -> None:
    record = to_record("t", OLD)
    assert record.value is not None
    with pytest.raises(ValueError):  # noqa: PT011  # each codec has its own message
        loaded(CoordinatorRecord(record.key, record.value[:cut]))


def test_S15_a_record_of_an_unknown_type_is_skipped() -> None:
    assert not loaded(CoordinatorRecord(b"\x4e\x20later", b"whatever")).memberships
