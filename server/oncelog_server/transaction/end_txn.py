"""EndTxn: the decision (KIP-98), with a new epoch for every transaction from v5 on (KIP-890 part
2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordination.shard import Decision
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
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


class EndTxn(NamedTuple):
    """`bumps_epoch`: the client speaks EndTxn v5 or later."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    bumps_epoch: bool


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
        return Decision(UNKNOWN_PRODUCER)
    verdict = _verdict(live, command)
    if isinstance(verdict, TransactionResult):
        return Decision(verdict)
    target = _target(live.metadata, command, verdict, wall_ms, new_producer_id)
    answer: Deferred[TransactionResult] = Deferred()
    live.waiting.append(answer)

    def failed(code: ErrorCode) -> TransactionResult:
        live.waiting.remove(answer)
        return TransactionResult(code)

    return shard.decide(live, target, answer, failed)


def _verdict(live: LiveTransaction, command: EndTxn) -> Verdict | TransactionResult:
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
    return _ANSWERS.get(verdict) or (decided(metadata) if verdict is Verdict.DONE else verdict)


_ANSWERS = {Verdict.BUSY: BUSY, Verdict.FENCED: FENCED}


def _stranger(metadata: TransactionMetadata, command: EndTxn) -> TransactionResult:
    """Fenced even where the epoch is higher than ours: nobody was given it (Z18)."""
    return UNKNOWN_PRODUCER if metadata.producer_id != command.producer_id else FENCED


def _is_retry(metadata: TransactionMetadata, command: EndTxn) -> bool:
    """The same call again after its decision bumped the epoch, or took a new producer id at the
    last one. `last_producer_epoch` is -1 where a newer instance made the bump: then it is a zombie,
    not a retry."""
    if metadata.last_producer_epoch != command.producer_epoch:
        return False
    if metadata.producer_id == command.producer_id:
        return command.producer_epoch + 1 == metadata.producer_epoch
    return (
        metadata.previous_producer_id == command.producer_id
        and command.producer_epoch == LAST_PRODUCER_EPOCH
        and metadata.producer_epoch == 0
    )


def _target(
    metadata: TransactionMetadata,
    command: EndTxn,
    verdict: Verdict,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> TransactionMetadata:
    target = metadata._replace(state=PREPARED[command.committed], last_update_ms=wall_ms)
    if verdict is Verdict.PREPARE_EMPTY:
        target = target._replace(partitions=frozenset(), start_ms=wall_ms)
    if not command.bumps_epoch:
        return target._replace(client_transaction_version=0)
    exhausted = metadata.producer_epoch >= LAST_PRODUCER_EPOCH
    return target._replace(
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=new_producer_id() if exhausted else NO_PRODUCER_ID,
        client_transaction_version=2,
    )
