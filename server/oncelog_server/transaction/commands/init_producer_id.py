"""Decides InitProducerId for a transactional id. The decision chooses the current producer (KIP-98,
KIP-360, KIP-890, KIP-939)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision, Effect
from oncelog_server.transaction.caller import ClientRequest, client_of, is_admin_tool
from oncelog_server.transaction.caller_role import CallerRole, caller_role
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.commands.keep_prepared import keep
from oncelog_server.transaction.decisions import change, fenced, refuse
from oncelog_server.transaction.effects import ClientKnown
from oncelog_server.transaction.fences import Fence, Reason, taken_over_by
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    TransactionMetadata,
)
from oncelog_server.transaction.results import (
    BUSY,
    INVALID_REQUEST,
    INVALID_STATE,
    TransactionResult,
)
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import INIT_PRODUCER_ID, State, Verdict
from oncelog_server.transaction.takeover import needs_new_id


class InitProducerId(msgspec.Struct, frozen=True):
    """An InitProducerId command. `producer_id` and `producer_epoch` are -1 unless a producer
    requests its own next epoch (KIP-360). `two_phase`: the producer's transactions have no timeout,
    whatever `timeout_ms` says. `keep_prepared`: an open transaction stays open, and the caller will
    end the transaction (KIP-939). `by_operator`: an operator sends the command, only to abort the
    open transaction."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    two_phase: bool = False
    keep_prepared: bool = False
    caller: ClientRequest | None = None
    by_operator: bool = False

    @property
    def principal(self) -> str:
        """Return the principal of the caller as text, an empty text for User:ANONYMOUS."""
        return "" if self.caller is None else self.caller.principal


def decide_init_producer_id(
    shard: TransactionShard,
    command: InitProducerId,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Decide the next epoch, or the abort of the open transaction. With `keep_prepared`, the open
    transaction is kept instead. `new_producer_id` returns an id of the caller's principal that was
    never used, or raises Refused if no id is available now."""
    refused = refusal(shard, command)
    if refused is not None:
        return refused
    if command.two_phase:
        command = replace(command, timeout_ms=NO_TIMEOUT_MS)
    live = shard.get(command.transactional_id)
    if live is None:
        live = LiveTransaction(
            TransactionMetadata(
                transactional_id=command.transactional_id,
                producer_id=new_producer_id(),
                producer_epoch=NO_PRODUCER_EPOCH,
                timeout_ms=command.timeout_ms,
            )
        )
    metadata = live.metadata
    if live.is_busy:
        return Decision(BUSY)
    role = caller_role(metadata, command.producer_id, command.producer_epoch)
    verdict = INIT_PRODUCER_ID.get(metadata.state)
    if (
        verdict is Verdict.FENCE
        and role is CallerRole.PREVIOUS_EPOCH
        and not (command.keep_prepared and metadata.is_kept)
    ):
        # The request was sent before the transaction began.
        return refuse(live, command.producer_id, command.producer_epoch)
    needs_id = needs_new_id(shard, metadata, role, command.principal)
    if verdict is Verdict.FENCE and command.keep_prepared:
        return keep(
            live,
            role,
            needs_id=needs_id,
            reason=_reason(command),
            timeout_ms=command.timeout_ms,
            wall_ms=wall_ms,
            new_producer_id=new_producer_id,
        )
    if verdict is Verdict.FENCE:
        return _end_open(live, command, role, wall_ms, new_producer_id)
    if verdict is not Verdict.INITIALISE:
        return Decision(INVALID_STATE)
    target = _next_epoch(metadata, command, role, wall_ms, new_producer_id if needs_id else None)
    result = TransactionResult(ErrorCode.NONE, target.producer_id, target.producer_epoch)
    return change(target, result, *_taken_over(live, command, role, wall_ms))


def refusal(shard: TransactionShard, command: InitProducerId) -> Decision[TransactionResult] | None:
    """Return the decision that refuses the call with an error that is not retriable. Return None if
    the call is allowed, or may be allowed later because the id is busy. The id may be unknown to
    the coordinator."""
    if not command.transactional_id or _is_half_named(command):
        return Decision(INVALID_REQUEST)
    if not (command.two_phase or 0 < command.timeout_ms <= shard.max_timeout_ms):
        return Decision(TransactionResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    live = shard.get(command.transactional_id)
    if live is None or live.is_busy:
        return None
    if caller_role(live.metadata, command.producer_id, command.producer_epoch) is CallerRole.FENCED:
        return refuse(live, command.producer_id, command.producer_epoch)
    return None


def _end_open(
    live: LiveTransaction,
    command: InitProducerId,
    role: CallerRole,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Abort the open transaction for the current producer or a newer producer. All other callers
    were refused before.

    The caller retries until the abort is done. A newer producer then gets one more epoch. The
    current producer gets the epoch of the abort.
    """
    by_its_own = role is CallerRole.CURRENT
    return fence(
        live,
        BUSY,
        wall_ms=wall_ms,
        keep_owner=by_its_own,
        reason=None if by_its_own else _reason(command),
        new_producer_id=new_producer_id,
    )


def _reason(command: InitProducerId) -> Reason:
    return taken_over_by(command.caller, by_operator=command.by_operator)


def _taken_over(
    live: LiveTransaction, command: InitProducerId, role: CallerRole, wall_ms: int
) -> tuple[Effect, ...]:
    """Return the effects of the next epoch: the new client, and the fence of the previous producer
    if a newer instance takes over."""
    metadata = live.metadata
    # True for the retry of a newer instance: its first call has aborted a transaction, and has
    # already fenced the producer of the transaction.
    comes_back = (
        metadata.state is State.COMPLETE_ABORT
        and metadata.last_producer_epoch == NO_PRODUCER_EPOCH
        and any(
            fence.aborted and fence.refuses and _is_next_of(metadata, fence)
            for fence in live.fences
        )
    )
    caller = command.caller
    if command.by_operator or (caller is not None and is_admin_tool(caller)):
        caller = None
    known = ClientKnown(metadata.transactional_id, None if caller is None else client_of(caller))
    if role is CallerRole.NEW_INSTANCE and metadata.producer_epoch >= 0 and not comes_back:
        return fenced(live, _reason(command), wall_ms), known
    return (known,)


def _is_next_of(metadata: TransactionMetadata, fence: Fence) -> bool:
    """Return True if the id's owner is the direct successor of the fenced producer. A direct
    successor has the next epoch, or a new producer id after the last epoch (KIP-360)."""
    if fence.producer_epoch >= LAST_PRODUCER_EPOCH:
        return metadata.previous_producer_id == fence.producer_id and metadata.owner[1] == 0
    return (fence.producer_id, fence.producer_epoch + 1) == metadata.owner


def _is_half_named(command: InitProducerId) -> bool:
    """Return True for a producer id without an epoch, or an epoch without a producer id (scenario
    Z10)."""
    return (command.producer_id == NO_PRODUCER_ID) != (command.producer_epoch == NO_PRODUCER_EPOCH)


def _next_epoch(
    metadata: TransactionMetadata,
    command: InitProducerId,
    role: CallerRole,
    wall_ms: int,
    new_producer_id: Callable[[], int] | None,
) -> TransactionMetadata:
    """Return the next metadata of the id. `role` is not FENCED. `new_producer_id` is None if the
    present producer id has a further epoch for the caller."""
    empty = replace(
        metadata,
        state=State.EMPTY,
        timeout_ms=command.timeout_ms,
        partitions=NO_PARTITIONS,
        start_ms=-1,
        last_update_ms=wall_ms,
        decided_members=(),
    )
    if role is CallerRole.PREVIOUS_EPOCH and metadata.owner[1] <= LAST_PRODUCER_EPOCH:
        # The caller retries after a lost response (scenario R14), or its transaction has timed out.
        # The epoch was bumped already, and may be the last epoch.
        return empty
    if new_producer_id is None:
        owner = metadata.producer_epoch if role is CallerRole.CURRENT else NO_PRODUCER_EPOCH
        return replace(empty, producer_epoch=metadata.producer_epoch + 1, last_producer_epoch=owner)
    return replace(
        empty,
        producer_id=new_producer_id(),
        previous_producer_id=metadata.producer_id,
        producer_epoch=0,
        last_producer_epoch=(
            NO_PRODUCER_EPOCH if role is CallerRole.NEW_INSTANCE else command.producer_epoch
        ),
    )
