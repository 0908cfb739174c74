"""Decides between two producers that commit offsets of the same input partition for one group
(KIP-447, early draft, "Compatibility fencing"). The decision aborts the transaction of the older
producer, so that the newer producer can continue."""

from __future__ import annotations

from collections.abc import Callable, Collection

from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.results import BUSY, CONCURRENT_COMMIT, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State


def transactions_of(
    shard: TransactionShard, producer_ids: Collection[int]
) -> list[LiveTransaction]:
    """Return the transactions of these producers that are open, or that are decided but not
    complete."""
    return [
        live
        for transactions in (shard.ongoing, shard.prepared)
        for live in transactions.values()
        if live.metadata.producer_id in producer_ids
    ]


def decide_concurrent_commit(
    older: LiveTransaction,
    caller: ClientRequest | None,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Abort the older transaction and respond with SUCCESS. If its commit is decided, or it takes
    part in a two-phase commit, respond with CONCURRENT_PRODUCER_COMMIT. The newer producer then has
    to wait. While another decision is pending, respond with CONCURRENT_TRANSACTIONS. The older
    producer may use its epoch to get the next epoch, as after a timeout."""
    target = older.metadata if older.pending is None else older.pending
    if target.state is State.PREPARE_COMMIT or target.is_two_phase:
        return Decision(CONCURRENT_COMMIT)
    if target.state is State.PREPARE_ABORT:
        return Decision(SUCCESS)
    if older.is_busy:
        return Decision(BUSY)
    reason = Reason(FenceCause.CONCURRENT_COMMIT, caller)
    return fence(
        older,
        SUCCESS,
        wall_ms=wall_ms,
        keep_owner=True,
        reason=reason,
        new_producer_id=new_producer_id,
    )
