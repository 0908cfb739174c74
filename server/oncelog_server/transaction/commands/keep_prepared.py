"""Decides an InitProducerId that keeps an open transaction, so that the caller can end the
transaction. A participant in two-phase commit recovers in this way (KIP-939)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision, Effect
from oncelog_server.transaction.caller import client_of
from oncelog_server.transaction.caller_role import CallerRole
from oncelog_server.transaction.decisions import change, fenced
from oncelog_server.transaction.effects import ClientKnown, StartTimer
from oncelog_server.transaction.fences import Reason
from oncelog_server.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    TransactionMetadata,
)
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import LiveTransaction


def keep(
    live: LiveTransaction,
    role: CallerRole,
    *,
    needs_id: bool,
    reason: Reason,
    timeout_ms: int,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Return the decision that keeps the transaction open. The producer id and epoch of the
    transaction do not change. The caller gets another epoch to end the transaction, so all earlier
    producers are fenced. `needs_id`: the caller gets an id of its own instead, because the present
    id has no further epoch, or is not of the caller's principal.

    A transaction without a timeout stays without a timeout, because its participant may have voted
    to commit.
    """
    metadata = live.metadata
    if role is CallerRole.PREVIOUS_EPOCH:
        # The response to the first call was lost, so the retry gets the same response.
        return Decision(_kept(metadata))
    owner_id, owner_epoch = metadata.owner
    timeout_ms = NO_TIMEOUT_MS if metadata.is_two_phase else timeout_ms
    target = replace(
        metadata,
        next_producer_id=new_producer_id() if needs_id else owner_id,
        next_producer_epoch=0 if needs_id else owner_epoch + 1,
        previous_producer_id=owner_id,
        last_producer_epoch=NO_PRODUCER_EPOCH if role is CallerRole.NEW_INSTANCE else owner_epoch,
        timeout_ms=timeout_ms,
        last_update_ms=wall_ms,
    )
    transactional_id = metadata.transactional_id
    client = None if reason.by is None else client_of(reason.by)
    effects: list[Effect] = [ClientKnown(transactional_id, client)]
    if role is CallerRole.NEW_INSTANCE:
        effects.insert(0, fenced(live, reason, wall_ms, aborts=False))
    if live.deadline_ms is not None:
        deadline_ms = live.deadline_ms + timeout_ms - metadata.timeout_ms
        effects.append(StartTimer(transactional_id, deadline_ms))
    return change(target, _kept(target), *effects, opened_by=client)


def _kept(metadata: TransactionMetadata) -> TransactionResult:
    producer_id, producer_epoch = metadata.owner
    return TransactionResult(
        ErrorCode.NONE,
        producer_id,
        producer_epoch,
        metadata.producer_id,
        metadata.producer_epoch,
    )
