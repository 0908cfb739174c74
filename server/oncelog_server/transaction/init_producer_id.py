"""InitProducerId for a transactional id: who is the one live producer (KIP-98, KIP-360,
KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordination.shard import Decision
from oncelog_server.transaction.fencing import fence
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from oncelog_server.transaction.results import BUSY, FENCED, INVALID_REQUEST, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import INIT_PRODUCER_ID, State, Verdict


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """`producer_id` and `producer_epoch` are -1 unless a producer asks for its own next epoch
    (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def names_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


def decide_init_producer_id(
    shard: TransactionShard,
    command: InitProducerId,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """`new_producer_id` hands out an id nobody had before; it may raise Refused (none left right
    now)."""
    if not command.transactional_id or _is_half_named(command):
        return Decision(INVALID_REQUEST)
    if not 0 < command.timeout_ms <= shard.max_timeout_ms:
        return Decision(TransactionResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
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
        shard.transactions[command.transactional_id] = live
    metadata = live.metadata
    if live.is_busy:
        return Decision(BUSY)
    if not _may_ask(metadata, command):
        return Decision(FENCED)
    if INIT_PRODUCER_ID[metadata.state] is Verdict.FENCE:
        # The caller comes back when the abort is done; the epoch spent on it is given to nobody.
        return fence(shard, live, BUSY, wall_ms=wall_ms, keep_owner=False)
    target = _next_epoch(metadata, command, wall_ms, new_producer_id)
    if target is None:
        return Decision(FENCED)
    result = TransactionResult(ErrorCode.NONE, target.producer_id, target.producer_epoch)
    return shard.decide(live, target, result, partial(TransactionResult))


def _is_half_named(command: InitProducerId) -> bool:
    """A producer id without an epoch or the other way round (Z10)."""
    return (command.producer_id == NO_PRODUCER_ID) != (command.producer_epoch == NO_PRODUCER_EPOCH)


def _may_ask(metadata: TransactionMetadata, command: InitProducerId) -> bool:
    """Whether a producer that names itself is the current one, or the one before a change of
    producer id whose answer was lost (KIP-360). The epoch is looked at later."""
    return (
        not command.names_producer
        or metadata.producer_epoch == NO_PRODUCER_EPOCH
        or command.producer_id == metadata.producer_id
        or (
            command.producer_id == metadata.previous_producer_id
            and command.producer_epoch >= LAST_PRODUCER_EPOCH
        )
    )


def _next_epoch(
    metadata: TransactionMetadata,
    command: InitProducerId,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> TransactionMetadata | None:
    """The id's next state, or None if the producer that names itself has been fenced."""
    empty = metadata._replace(
        state=State.EMPTY,
        timeout_ms=command.timeout_ms,
        partitions=frozenset(),
        start_ms=-1,
        last_update_ms=wall_ms,
    )
    fresh = metadata.producer_epoch == NO_PRODUCER_EPOCH
    is_current = fresh or command.producer_epoch == metadata.producer_epoch
    # A repeated call whose answer was lost, or a producer whose transaction timed out. No danger
    # that this producer is fenced: a newer one's call would have set the last epoch to -1.
    is_last = (
        command.names_producer
        and not is_current
        and command.producer_epoch == metadata.last_producer_epoch
    )
    if command.names_producer and not is_current and not is_last:
        return None
    if is_last and not metadata.is_epoch_exhausted:
        return empty
    owner = metadata.producer_epoch if command.names_producer else NO_PRODUCER_EPOCH
    if metadata.is_epoch_exhausted:
        return empty._replace(
            producer_id=new_producer_id(),
            previous_producer_id=metadata.producer_id,
            producer_epoch=0,
            last_producer_epoch=command.producer_epoch if is_last else owner,
        )
    return empty._replace(producer_epoch=metadata.producer_epoch + 1, last_producer_epoch=owner)
