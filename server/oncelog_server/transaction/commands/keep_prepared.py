"""InitProducerId that keeps an open transaction, which its caller means to end: the recovery of a
participant in two-phase commit (KIP-939)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.caller import client_of
from oncelog_server.transaction.caller_role import CallerRole
from oncelog_server.transaction.fences import Reason
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    TransactionMetadata,
)
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard


def keep(
    shard: TransactionShard,
    live: LiveTransaction,
    role: CallerRole,
    *,
    reason: Reason,
    timeout_ms: int,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """The transaction stays as it is, and its markers will carry its own producer id and epoch; the
    caller gets an epoch of its own to end it with, so that everybody before it is fenced.

    A transaction without a time-out never gets one this way: somebody may have voted to commit.
    """
    metadata = live.metadata
    if role is CallerRole.PREVIOUS_EPOCH:
        # The answer was lost: it is given again.
        return Decision(_kept(metadata))
    owner_id, owner_epoch = metadata.owner
    exhausted = owner_epoch >= LAST_PRODUCER_EPOCH
    timeout_ms = NO_TIMEOUT_MS if metadata.is_two_phase else timeout_ms
    target = replace(
        metadata,
        next_producer_id=new_producer_id() if exhausted else owner_id,
        next_producer_epoch=0 if exhausted else owner_epoch + 1,
        previous_producer_id=owner_id,
        last_producer_epoch=NO_PRODUCER_EPOCH if role is CallerRole.NEW_INSTANCE else owner_epoch,
        timeout_ms=timeout_ms,
        last_update_ms=wall_ms,
    )
    later_ms = timeout_ms - metadata.timeout_ms
    cut_off = None
    if role is CallerRole.NEW_INSTANCE:
        cut_off = shard.cut_off(live, reason, wall_ms, aborts=False)
    client = None if reason.by is None else client_of(reason.by)

    def on_committed() -> None:
        if cut_off is not None:
            cut_off()
        live.client = client
        if live.deadline_ms is not None:
            live.deadline_ms += later_ms

    decision = shard.decide(live, target, _kept(target), TransactionResult, opened_by=client)
    return replace(decision, on_committed=on_committed)


def _kept(metadata: TransactionMetadata) -> TransactionResult:
    producer_id, producer_epoch = metadata.owner
    return TransactionResult(
        ErrorCode.NONE,
        producer_id,
        producer_epoch,
        metadata.producer_id,
        metadata.producer_epoch,
    )
