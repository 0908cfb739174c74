"""Aborting a transaction against its producer's will: a newer producer came, or its time is up
(KIP-98, 588)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_server.coordinator.shard import Decision
from oncelog_server.refusal import Refused
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from oncelog_server.transaction.results import FENCED, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State


def fence(
    shard: TransactionShard,
    live: LiveTransaction,
    response: TransactionResult,
    *,
    wall_ms: int,
    keep_owner: bool,
    reason: Reason | None,
    new_producer_id: Callable[[], int] | None = None,
) -> Decision[TransactionResult]:
    """PREPARE_ABORT with the next epoch, so that nothing late of the old one is accepted anywhere.

    `keep_owner`: the producer may come back for the bumped epoch by naming its old one (its
    transaction timed out, KIP-588); false when a newer instance has taken over. `reason`: None
    where it asked for it itself. If the append fails nothing has changed, so fencing again cannot
    run through the epochs (KAFKA-9666). `new_producer_id`: at the last epoch the id is another one
    after the abort, which the owner's retry of EndTxn v5 is told (KAFKA-20090).
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
    decision = shard.decide(live, target, response, TransactionResult)
    if reason is None:
        return decision
    return replace(decision, on_committed=shard.cut_off(live, reason, wall_ms))


def _next_id(metadata: TransactionMetadata, new_producer_id: Callable[[], int]) -> int:
    """The id that the producer goes on with, if its epochs run out with this abort."""
    if not metadata.is_epoch_exhausted:
        return NO_PRODUCER_ID
    try:
        return new_producer_id()
    except Refused:
        # None left right now. The abort does not wait for one: InitProducerId brings it.
        return NO_PRODUCER_ID


def abort_overdue(
    shard: TransactionShard,
    *,
    now_ms: int,
    wall_ms: int,
    at_most: int,
    new_producer_id: Callable[[], int],
) -> list[tuple[str, Decision[TransactionResult]]]:
    """Abort `at_most` so many transactions that are past their time-out: the scan of
    `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    aborts = []
    for transactional_id in shard.overdue(now_ms, at_most):
        live = shard.ongoing[transactional_id]
        decision = fence(
            shard,
            live,
            FENCED,
            wall_ms=wall_ms,
            keep_owner=True,
            reason=Reason(FenceCause.TIMED_OUT),
            new_producer_id=new_producer_id,
        )
        aborts.append((transactional_id, decision))
    return aborts
