"""Decides aborts without an EndTxn. The cause is an InitProducerId (usually of a newer producer), a
newer producer's commit of offsets of the same input partition, or the timeout (KIP-98, KIP-447,
KIP-588)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_server.coordinator.shard import Decision
from oncelog_server.refusal import Refused
from oncelog_server.transaction.decisions import change, fenced
from oncelog_server.transaction.effects import WriteMarkers
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from oncelog_server.transaction.results import FENCED, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction
from oncelog_server.transaction.states import State


def fence(
    live: LiveTransaction,
    response: TransactionResult,
    *,
    wall_ms: int,
    keep_owner: bool,
    reason: Reason | None,
    new_producer_id: Callable[[], int] | None = None,
) -> Decision[TransactionResult]:
    """Decide PREPARE_ABORT with the next epoch. Late requests with the old epoch are then refused.

    `keep_owner`: True after a timeout, because the producer may use its old epoch to get the bumped
    epoch (KIP-588). False if a newer instance has taken over. `reason`: None if the producer itself
    requested the abort by InitProducerId. `new_producer_id`: called only at the last epoch. It
    returns the producer id that replaces the old id after the abort. If the owner then retries
    EndTxn v5, the response has this new id (KAFKA-20090). A failed append changes nothing, so
    repeated attempts do not use up the epochs (KAFKA-9666).
    """
    metadata = live.metadata
    owner_id, owner_epoch = metadata.owner
    target = replace(
        metadata,
        state=State.PREPARE_ABORT,
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=owner_epoch if keep_owner else NO_PRODUCER_EPOCH,
        last_update_ms=wall_ms,
    )
    if metadata.is_kept:
        target = replace(target, previous_producer_id=owner_id, next_producer_epoch=owner_epoch + 1)
    elif new_producer_id is not None:
        target = replace(target, next_producer_id=_next_id(metadata, new_producer_id))
    markers = WriteMarkers((metadata.transactional_id,))
    if reason is None:
        return change(target, response, markers)
    return change(target, response, fenced(live, reason, wall_ms), markers)


def _next_id(metadata: TransactionMetadata, new_producer_id: Callable[[], int]) -> int:
    """Return the producer id after this abort. Return -1 if the id does not change."""
    if not metadata.is_epoch_exhausted:
        return NO_PRODUCER_ID
    try:
        return new_producer_id()
    except Refused:
        # No new producer id is available now. The abort does not wait for a new id, because a later
        # InitProducerId assigns one.
        return NO_PRODUCER_ID


def decide_overdue(
    live: LiveTransaction, *, wall_ms: int, new_producer_id: Callable[[], int]
) -> Decision[TransactionResult]:
    """Decide the abort of a transaction that is past its timeout. The caller must have just checked
    this with `is_overdue`."""
    return fence(
        live,
        FENCED,
        wall_ms=wall_ms,
        keep_owner=True,
        reason=Reason(FenceCause.TIMED_OUT),
        new_producer_id=new_producer_id,
    )
