"""Decides the two steps of EndTxn. PREPARE records the outcome (KIP-98). From v5 on, PREPARE also
gives the producer a new epoch (KIP-890 part 2). COMPLETE follows after all markers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision, Park
from oncelog_server.transaction.decisions import REFUSE_UNKNOWN, append_failed, refuse
from oncelog_server.transaction.effects import (
    CompleteLater,
    Pending,
    ReleaseResponse,
    WriteMarkers,
)
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    GroupedTransaction,
    TransactionMetadata,
    to_record,
)
from oncelog_server.transaction.results import (
    BUSY,
    FENCED,
    INVALID_REQUEST,
    INVALID_STATE,
    UNKNOWN_PRODUCER,
    TransactionResult,
)
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard, decided
from oncelog_server.transaction.states import (
    COMPLETED,
    END_CURRENT_EPOCH,
    END_PREVIOUS_EPOCH,
    END_SAME_EPOCH,
    PREPARED,
    Verdict,
)
from oncelog_server.transaction.takeover import is_known


class EndTxn(msgspec.Struct, frozen=True):
    """An EndTxn command. `bumps_epoch`: the client sent EndTxn v5 or later. `group_id`: the
    consumer group of the transactional id, None without one. `members`: the other transactions of a
    group commit, sorted. One batch of records decides all of them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    bumps_epoch: bool
    group_id: str | None = None
    members: tuple[GroupedTransaction, ...] = ()


def decide_end_txn(
    shard: TransactionShard,
    command: EndTxn,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Decide PREPARE. The response waits until the transaction is complete, or until
    `shard.release` is called."""
    if not command.transactional_id:
        return Decision(INVALID_REQUEST)
    live = shard.get(command.transactional_id)
    if live is None:
        return REFUSE_UNKNOWN
    verdict = verdict_on(shard, live, command)
    if isinstance(verdict, TransactionResult) and verdict in (FENCED, UNKNOWN_PRODUCER):
        return refuse(
            live,
            command.producer_id,
            command.producer_epoch,
            verdict,
            in_group=command.group_id is not None and verdict is FENCED,
        )
    if shard.group_of(command.transactional_id) != command.group_id:
        return REFUSE_UNKNOWN
    if isinstance(verdict, TransactionResult):
        return Decision(verdict)
    target = target_of(live.metadata, command, verdict, wall_ms, new_producer_id)
    ids = (command.transactional_id,)
    record = to_record(target)
    effects = (Pending(target, record), WriteMarkers(ids))
    return Decision(Park(ids), (record,), effects=effects, failed=append_failed)


def decide_complete(
    shard: TransactionShard, work: MarkerWork, *, attempt: int, wall_ms: int
) -> Decision[None] | None:
    """Decide COMPLETE after the last marker. Return None while markers are missing or a decision is
    pending, and if the id is not prepared. If the append fails, the id stays prepared and the
    coordinator retries the append."""
    transactional_id = work.transactional_id
    live = shard.prepared.get(transactional_id)
    if live is None or live.markers_left or live.pending is not None:
        return None
    target = live.metadata.completed(COMPLETED[live.metadata.state], wall_ms)
    record = to_record(target)
    result = TransactionResult(ErrorCode.NONE, target.producer_id, target.producer_epoch)
    effects = (
        Pending(target, record),
        ReleaseResponse(transactional_id, result),
        CompleteLater(work, attempt),
    )
    return Decision(None, (record,), effects=effects)


def verdict_on(
    shard: TransactionShard, live: LiveTransaction, command: EndTxn
) -> Verdict | TransactionResult:
    """Return PREPARE or PREPARE_EMPTY, or the result for an immediate response."""
    metadata = live.metadata
    is_current = metadata.is_held_by(command.producer_id, command.producer_epoch)
    row = (metadata.state, command.committed)
    if command.bumps_epoch:
        if live.pending is not None:
            return BUSY
        if is_current:
            verdict = END_CURRENT_EPOCH.get(row)
        elif _is_retry(metadata, command):
            verdict = END_PREVIOUS_EPOCH.get(row)
        else:
            return _fenced_or_unknown(shard, metadata, command)
    elif not is_current:
        return _fenced_or_unknown(shard, metadata, command)
    elif live.pending is not None:
        return BUSY
    else:
        verdict = END_SAME_EPOCH.get(row)
    if verdict is None:
        return INVALID_STATE
    if verdict is Verdict.DONE and metadata.owner[1] > LAST_PRODUCER_EPOCH:
        # The id still has epoch 32767, which only ends transactions, because no new producer id was
        # available at the decision (scenario E6).
        return FENCED
    if verdict in (Verdict.DONE, Verdict.BUSY) and metadata.decided_members != command.members:
        # The members of the first call differ from the members of this retry.
        return INVALID_STATE
    return _RESPONSES.get(verdict) or (decided(metadata) if verdict is Verdict.DONE else verdict)


_RESPONSES = {Verdict.BUSY: BUSY, Verdict.FENCED: FENCED}


def _fenced_or_unknown(
    shard: TransactionShard, metadata: TransactionMetadata, command: EndTxn
) -> TransactionResult:
    """Return the result that refuses the caller. An epoch above the stored epoch is fenced too,
    because no producer ever got this epoch (scenario Z18)."""
    return FENCED if is_known(shard, metadata, command.producer_id) else UNKNOWN_PRODUCER


def _is_retry(metadata: TransactionMetadata, command: EndTxn) -> bool:
    """Return True if the first call has already bumped the epoch, or has taken a new producer id at
    the last epoch. `last_producer_epoch` is -1 if a newer instance bumped the epoch. The caller is
    then a zombie, and does not retry. A request with epoch -1 is never a retry."""
    if command.producer_epoch < 0 or metadata.last_producer_epoch != command.producer_epoch:
        return False
    owner_id, owner_epoch = metadata.owner
    if owner_id == command.producer_id:
        return command.producer_epoch + 1 == owner_epoch
    return (
        metadata.previous_producer_id == command.producer_id
        and command.producer_epoch == LAST_PRODUCER_EPOCH
        and owner_epoch == 0
    )


def target_of(
    metadata: TransactionMetadata,
    command: EndTxn,
    verdict: Verdict,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> TransactionMetadata:
    """Return the metadata of the prepared transaction."""
    if verdict is Verdict.PREPARE_EMPTY:
        metadata = replace(metadata, partitions=NO_PARTITIONS, start_ms=wall_ms)
    if metadata.decided_members != command.members:
        metadata = replace(metadata, decided_members=command.members)
    state = PREPARED[command.committed]
    if metadata.next_producer_epoch >= 0 and metadata.is_kept:
        kept = replace(metadata, state=state, last_update_ms=wall_ms)
        return _end_of_kept(kept, command, new_producer_id)
    if not command.bumps_epoch:
        return replace(metadata, state=state, last_update_ms=wall_ms, client_transaction_version=0)
    exhausted = metadata.producer_epoch >= LAST_PRODUCER_EPOCH
    return replace(
        metadata,
        state=state,
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=new_producer_id() if exhausted else NO_PRODUCER_ID,
        last_update_ms=wall_ms,
        client_transaction_version=2,
    )


def _end_of_kept(
    target: TransactionMetadata, command: EndTxn, new_producer_id: Callable[[], int]
) -> TransactionMetadata:
    """Return the metadata after the end of a transaction that a newer instance has kept (KIP-939,
    "Persisted Data Format Changes"). The markers have the original producer id and the next epoch,
    so all partitions fence the original producer. The producer that ends the transaction keeps its
    own id, or gets a new id with EndTxn v5 if its own id has no further epoch."""
    owner_id, owner_epoch = target.owner
    target = replace(
        target, producer_epoch=target.producer_epoch + 1, previous_producer_id=owner_id
    )
    if not command.bumps_epoch:
        return replace(target, client_transaction_version=0)
    exhausted = owner_epoch >= LAST_PRODUCER_EPOCH
    return replace(
        target,
        next_producer_id=new_producer_id() if exhausted else owner_id,
        next_producer_epoch=0 if exhausted else owner_epoch + 1,
        last_producer_epoch=owner_epoch,
        client_transaction_version=2,
    )
