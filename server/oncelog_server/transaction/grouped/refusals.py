"""Refuses producers because their group has a generation without them (KIP-447). The reason, the
time and the client are stored if the group has recorded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from oncelog_server.coordinator.shard import Decision, Effect
from oncelog_server.transaction.caller import ClientRequest, client_of
from oncelog_server.transaction.effects import Fenced, ProducerRefused, RefusalCounted
from oncelog_server.transaction.fences import (
    Fence,
    FenceCause,
    Reason,
    describe,
    fence_for,
    fence_of,
    with_fence,
)
from oncelog_server.transaction.metadata import NO_PRODUCER_ID
from oncelog_server.transaction.results import ILLEGAL_GENERATION, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard

if TYPE_CHECKING:
    from oncelog_server.transaction.commands.init_producer_id import InitProducerId


def refuse_in_group(
    live: LiveTransaction,
    producer: tuple[int, int],
    reason: Reason,
    wall_ms: int,
    *,
    caller: ClientRequest | None = None,
    for_good: bool = False,
) -> Decision[TransactionResult]:
    """Refuse with ILLEGAL_GENERATION, store the reason and count the refused request. `for_good`:
    True refuses the producer until the producer is initialized again. False lets the producer
    rejoin the group and continue. `caller`: the refused client, if the request names no producer
    (-1, -1)."""
    effects: tuple[Effect, ...] = ()
    fences = live.fences
    known = fence_of(fences, *producer)
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
            for_good=for_good,
        )
        effects = (Fenced(fence),)
        fences = with_fence(fences, fence)
    refusing = fence_of(fences, *producer)
    message = "" if refusing is None else describe(refusing)
    counted = ProducerRefused(live.metadata.transactional_id, *producer)
    return Decision(replace(ILLEGAL_GENERATION, message=message), effects=(*effects, counted))


def _is_same(fence: Fence, reason: Reason) -> bool:
    return fence.cause is reason.cause and reason.at_ms in (None, fence.at_ms)


def refuse_outdated(
    shard: TransactionShard, live: LiveTransaction, producer: tuple[int, int], wall_ms: int
) -> Decision[TransactionResult]:
    """Refuse a request of an id with an older generation than its group. Such an id may only be
    initialized (KIP-447, early draft)."""
    group_id = shard.groups.memberships[live.metadata.transactional_id].group_id
    reason = newest_generation(shard, group_id)
    return refuse_in_group(live, producer, reason, wall_ms, for_good=True)


def refuse_call(
    shard: TransactionShard, command: InitProducerId, reason: Reason, wall_ms: int
) -> Decision[TransactionResult]:
    """Refuse an InitProducerId of an older generation."""
    live = shard.get(command.transactional_id)
    if live is None:
        return Decision(ILLEGAL_GENERATION, effects=(RefusalCounted(reason.cause),))
    producer = command.producer_id, command.producer_epoch
    decision = refuse_in_group(live, producer, reason, wall_ms, caller=command.caller)
    return replace(decision, response=ILLEGAL_GENERATION)


def newest_generation(shard: TransactionShard, group_id: str) -> Reason:
    """Return the reason for refusing older generations of the group's transactional ids."""
    brought = shard.groups.brought(group_id)
    if brought is None:
        return Reason(FenceCause.NEWER_GENERATION)
    return Reason(FenceCause.NEWER_GENERATION, brought.by, brought.at_ms)
