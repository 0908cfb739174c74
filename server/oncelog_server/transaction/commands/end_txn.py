"""EndTxn: the decision (KIP-98), with a new epoch for every transaction from v5 on (KIP-890 part
2)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Member,
    TransactionMetadata,
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
    END_CURRENT_EPOCH,
    END_PREVIOUS_EPOCH,
    END_SAME_EPOCH,
    PREPARED,
    Verdict,
)


class EndTxn(msgspec.Struct, frozen=True):
    """`bumps_epoch`: the client speaks EndTxn v5 or later. `group_id` as in AddPartitions;
    `members`: what is decided together with it, sorted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    bumps_epoch: bool
    group_id: str | None = None
    members: tuple[Member, ...] = ()


def decide_end_txn(
    shard: TransactionShard,
    command: EndTxn,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """The answer is given when the transaction is complete, or earlier by `shard.release`."""
    if not command.transactional_id:
        return Decision(INVALID_REQUEST)
    live = shard.get(command.transactional_id)
    if live is None:
        return Decision(shard.refuse_unknown())
    verdict = verdict_on(live, command)
    if isinstance(verdict, TransactionResult):
        if verdict in (FENCED, UNKNOWN_PRODUCER):
            verdict = shard.refuse(
                live,
                command.producer_id,
                command.producer_epoch,
                verdict,
                in_group=command.group_id is not None and verdict is FENCED,
            )
        return Decision(verdict)
    target = target_of(live.metadata, command, verdict, wall_ms, new_producer_id)
    answer: Deferred[TransactionResult] = Deferred()
    live.waiting.append(answer)

    def failed(code: ErrorCode) -> TransactionResult:
        live.waiting.remove(answer)
        return TransactionResult(code)

    return shard.decide(live, target, answer, failed)


def verdict_on(live: LiveTransaction, command: EndTxn) -> Verdict | TransactionResult:
    """PREPARE or PREPARE_EMPTY, or the answer that is given at once."""
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
            return _stranger(metadata, command)
    elif not is_current:
        return _stranger(metadata, command)
    elif live.pending is not None:
        return BUSY
    else:
        verdict = END_SAME_EPOCH.get(row)
    if verdict is None:
        return INVALID_STATE
    if verdict is Verdict.DONE and metadata.owner[1] > LAST_PRODUCER_EPOCH:
        # The epoch after the last one is handed to nobody: there was no id to go on with (E6).
        return FENCED
    if verdict in (Verdict.DONE, Verdict.BUSY) and metadata.decided_members != command.members:
        # It was decided together with others than this retry says.
        return INVALID_STATE
    return _ANSWERS.get(verdict) or (decided(metadata) if verdict is Verdict.DONE else verdict)


_ANSWERS = {Verdict.BUSY: BUSY, Verdict.FENCED: FENCED}


def _stranger(metadata: TransactionMetadata, command: EndTxn) -> TransactionResult:
    """Fenced even where the epoch is higher than ours: nobody was given it (Z18)."""
    known = command.producer_id in (metadata.producer_id, metadata.owner[0])
    return FENCED if known else UNKNOWN_PRODUCER


def _is_retry(metadata: TransactionMetadata, command: EndTxn) -> bool:
    """The same call again after its decision bumped the epoch, or took a new producer id at the
    last one. `last_producer_epoch` is -1 where a newer instance made the bump: then it is a zombie,
    not a retry, and who names -1 is nobody."""
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
    """The end of a transaction that a newer instance has kept (KIP-939, "Persisted Data Format
    Changes"): its markers carry the id it was begun with and the epoch after that, so that its
    first producer is shut out everywhere; the producer that ends it goes on with its own id."""
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
