"""Producers that are refused because their group has gone on without them (KIP-447): why, since
when, and by whom, as far as the group tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from oncelog_server.transaction.caller import Caller, client_of
from oncelog_server.transaction.fences import Fence, FenceCause, Reason, fence_for, fence_of
from oncelog_server.transaction.metadata import NO_PRODUCER_ID
from oncelog_server.transaction.results import ILLEGAL_GENERATION, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard

if TYPE_CHECKING:
    from oncelog_server.transaction.commands.init_producer_id import InitProducerId


def refuse_in_group(
    shard: TransactionShard,
    live: LiveTransaction,
    producer: tuple[int, int],
    reason: Reason,
    wall_ms: int,
    *,
    caller: Caller | None = None,
    for_good: bool = False,
) -> str:
    """Remembered and counted: why, for a person. `for_good`: until its producer is initialised
    again; else it may join the group again, and go on. `caller`: whom it is about where no producer
    is named (-1, -1)."""
    known = fence_of(live.fences, *producer)
    if known is None or not (known.for_good or _is_same(known, reason)):
        owner = live.client
        if producer[0] == NO_PRODUCER_ID:
            owner = None if caller is None else client_of(caller)
        fence = fence_for(
            live.metadata.transactional_id,
            producer,
            owner,
            reason,
            aborted=False,
            wall_ms=wall_ms,
        )
        fence.for_good = for_good
        live.fences = shard.fences.remember(live.fences, fence)
    return shard.fences.refuse(live.fences, *producer)


def _is_same(fence: Fence, reason: Reason) -> bool:
    return fence.cause is reason.cause and reason.at_ms in (None, fence.at_ms)


def refuse_outdated(
    shard: TransactionShard, live: LiveTransaction, producer: tuple[int, int], wall_ms: int
) -> TransactionResult:
    """Its id is in a group that has a newer generation: it may only be initialised (KIP-447, early
    draft)."""
    group_id = shard.groups.memberships[live.metadata.transactional_id].group_id
    reason = newest_generation(shard, group_id)
    message = refuse_in_group(shard, live, producer, reason, wall_ms, for_good=True)
    return replace(ILLEGAL_GENERATION, message=message)


def refuse_call(
    shard: TransactionShard, command: InitProducerId, reason: Reason, wall_ms: int
) -> None:
    """An InitProducerId of an older generation."""
    live = shard.get(command.transactional_id)
    if live is None:
        shard.fences.refuse_unremembered(reason.cause)
        return
    producer = command.producer_id, command.producer_epoch
    refuse_in_group(shard, live, producer, reason, wall_ms, caller=command.caller)


def newest_generation(shard: TransactionShard, group_id: str) -> Reason:
    """That of the group's transactional ids."""
    brought = shard.groups.brought(group_id)
    if brought is None:
        return Reason(FenceCause.NEWER_GENERATION)
    return Reason(FenceCause.NEWER_GENERATION, brought.by, brought.at_ms)
