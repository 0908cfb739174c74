"""The offsets in a log of `__consumer_offsets`, computed by the protocol's rules.

Plain commits and the commits of committed transactions count, if they are after the partition's
last tombstone. The commit with the highest log position among these has the committed offset (I12,
KAFKA-5247).
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_protocol.internal.group_metadata import (
    OffsetCommitKey,
    decode_key,
    decode_offset_commit_value,
)
from tests.server.group.entries import Appended, Marker

Key = tuple[str, str, int]


def audit(log: Sequence[Appended | Marker]) -> tuple[dict[Key, int], dict[tuple[int, Key], int]]:
    """Return the committed offset by key, and the pending offset by producer and key."""
    commits: dict[Key, list[tuple[int, int, int | None]]] = {}
    for position, entry in enumerate(log):
        if isinstance(entry, Marker):
            continue
        key = decode_key(entry.record.key)
        if not isinstance(key, OffsetCommitKey):
            continue
        rows = commits.setdefault((key.group, key.topic, key.partition), [])
        if entry.record.value is None:
            rows.clear()
            continue
        producer_id = None if entry.transaction is None else entry.transaction.producer_id
        offset = decode_offset_commit_value(entry.record.value).offset
        rows.append((position, offset, producer_id))
    committed = {}
    pending = {}
    for name, rows in commits.items():
        for position, offset, producer_id in rows:
            fate = True if producer_id is None else decided(log, position, producer_id)
            if fate:
                committed[name] = offset
            elif fate is None and producer_id is not None:
                pending[producer_id, name] = offset
    return committed, pending


def decided(log: Sequence[Appended | Marker], position: int, producer_id: int) -> bool | None:
    """Return the outcome of the transaction of the record at `position`: True if it was committed,
    False if it was aborted, None while it is undecided."""
    for entry in log[position:]:
        if isinstance(entry, Marker) and entry.producer_id == producer_id:
            return entry.committed
    return None
