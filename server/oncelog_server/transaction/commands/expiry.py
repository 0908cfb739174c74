"""Forgetting transactional ids that nobody used for `transactional.id.expiration.ms` (KIP-98).

A tombstone is a decision like any other: until it is committed its id is busy, and where it cannot
be written the id goes on as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.transaction.metadata import TransactionMetadata, tombstone
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State

# Where nothing is open and nothing is owed.
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT, State.DEAD})


def is_expired(live: LiveTransaction, *, before_ms: int) -> bool:
    """`before_ms`: wall clock ms; what was used later stays."""
    metadata = live.metadata
    return (
        metadata.state in AT_REST
        and live.pending is None
        and 0 <= metadata.last_update_ms <= before_ms
    )


def decide_expiry(shard: TransactionShard, expired: Iterable[LiveTransaction]) -> Decision[None]:
    """Their tombstones, as one batch. `expired` are those of `is_expired`, just now."""
    pending: list[LiveTransaction] = []
    records: list[CoordinatorRecord] = []
    for live in expired:
        live.pending = _dead(live.metadata)
        pending.append(live)
        records.append(tombstone(live.metadata.transactional_id))
    records += shard.groups.removal(live.metadata.transactional_id for live in pending)

    def on_failure(_: int) -> None:
        for live in pending:
            live.pending = None

    return Decision(None, tuple(records), on_failure=on_failure)


def _dead(metadata: TransactionMetadata) -> TransactionMetadata:
    return replace(metadata, state=State.DEAD)
