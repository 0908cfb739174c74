"""Checks two promises of transaction groups, on records alone, without the server's state. A newer
generation fences the older generations (from an early draft of KIP-447), and a group commit decides
all its transactions together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog_protocol.internal.transaction_group import (
    decode_transaction_group_key,
    decode_transaction_group_value,
)
from oncelog_protocol.internal.transaction_log import (
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.coordinator.shard import CoordinatorRecord

PREPARED = (2, 3)
PREPARE_COMMIT = 2


def audit_groups(log: Sequence[CoordinatorRecord], batches: Mapping[int, int]) -> int:
    """Check both promises. Return the number of group commits."""
    return _commits_are_whole(log, batches) if _generations_fence(log) else 0


def _generations_fence(log: Sequence[CoordinatorRecord]) -> bool:
    """Check that no producer of an older generation commits after a record of a newer generation of
    the group."""
    generations: dict[str, tuple[str, int]] = {}
    newest: dict[str, int] = {}
    for record in log:
        assert record.value is not None
        try:
            key = decode_transaction_group_key(record.key)
        except UnknownRecordVersion:
            name = decode_transaction_log_key(record.key).transactional_id
            value = decode_transaction_log_value(record.value)
            if value.transaction_status == PREPARE_COMMIT and name in generations:
                group, generation = generations[name]
                assert generation >= newest[group], f"{name} of generation {generation} commits"
            continue
        generation = decode_transaction_group_value(record.value).generation_id
        generations[key.transactional_id] = (key.group_id, generation)
        assert generation >= newest.get(key.group_id, -1), "the group accepts an older generation"
        newest[key.group_id] = generation
    return True


def _commits_are_whole(log: Sequence[CoordinatorRecord], batches: Mapping[int, int]) -> int:
    """Check each group commit: the decisions of the parent and of all its members are in one batch
    and have the same outcome. Return the number of group commits."""
    commits = 0
    decided: dict[tuple[str, int], tuple[int, int]] = {}
    begins = {
        offset: begin for begin, size in batches.items() for offset in range(begin, begin + size)
    }
    for offset, record in enumerate(log):
        assert record.value is not None
        try:
            name = decode_transaction_log_key(record.key).transactional_id
        except UnknownRecordVersion:
            continue
        value = decode_transaction_log_value(record.value)
        if value.transaction_status not in PREPARED:
            continue
        outcome = (begins.get(offset, -1), value.transaction_status)
        decided[name, value.producer_id] = outcome
        for member in value.decided_members:
            assert decided[member.transactional_id, member.producer_id] == outcome
        commits += bool(value.decided_members)
    return commits
