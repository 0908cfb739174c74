"""The expiry of transactional ids that were unused for `transactional.id.expiration.ms` (KIP-98).

An id expires by a tombstone. The tombstone is an ordinary decision: the id is busy until the
tombstone is committed, and the id is unchanged if the write fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.effects import Pending
from oncelog_server.transaction.groups import TransactionGroups
from oncelog_server.transaction.metadata import tombstone
from oncelog_server.transaction.shard import LiveTransaction
from oncelog_server.transaction.states import State

# The states without an open transaction and without a missing marker.
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT, State.DEAD})


def is_expired(live: LiveTransaction, *, before_ms: int) -> bool:
    """Return True if the id has no open transaction, and its last use was at `before_ms` (wall
    clock) or earlier."""
    metadata = live.metadata
    return (
        metadata.state in AT_REST
        and live.pending is None
        and 0 <= metadata.last_update_ms <= before_ms
    )


def decide_expiry(expired: Iterable[LiveTransaction], groups: TransactionGroups) -> Decision[None]:
    """Decide the tombstones of `expired` as one batch. The caller must have just checked all the
    ids with `is_expired`."""
    effects = tuple(
        Pending(replace(live.metadata, state=State.DEAD), tombstone(live.metadata.transactional_id))
        for live in expired
    )
    records = [effect.record for effect in effects]
    records += groups.removal(effect.target.transactional_id for effect in effects)
    return Decision(None, tuple(records), effects=effects)
