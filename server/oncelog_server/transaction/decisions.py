"""The parts that decisions about a transactional id share: a change of the state, a fence, a
refused request."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision, Effect, Park
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.effects import Fenced, Pending, ProducerRefused, RefusalCounted
from oncelog_server.transaction.fences import FenceCause, Reason, describe, fence_for, fence_of
from oncelog_server.transaction.metadata import TransactionMetadata, to_record
from oncelog_server.transaction.results import (
    CONCURRENT_COMMIT,
    FENCED,
    UNKNOWN_PRODUCER,
    TransactionResult,
)
from oncelog_server.transaction.shard import LiveTransaction
from oncelog_server.transaction.states import State

# The error code that a producer gets, by the code of the failed append. All other codes become
# COORDINATOR_NOT_AVAILABLE (Kafka's TransactionStateManager).
APPEND_ERRORS: Final[dict[int, ErrorCode]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_failed(code: int) -> TransactionResult:
    """Return the response of a decision after its append failed with `code`."""
    return TransactionResult(APPEND_ERRORS.get(code, ErrorCode.COORDINATOR_NOT_AVAILABLE))


def change(
    target: TransactionMetadata,
    response: TransactionResult | Park,
    *effects: Effect,
    opened_by: Client | None = None,
) -> Decision[TransactionResult]:
    """Return the decision that makes `target` the state of its id. `opened_by`: the client that
    opened the transaction. The record contains the client, so that the client is known after a
    restart."""
    record = to_record(target, opened_by)
    return Decision(
        response, (record,), effects=(Pending(target, record), *effects), failed=append_failed
    )


def fenced(live: LiveTransaction, reason: Reason, wall_ms: int, *, aborts: bool = True) -> Fenced:
    """Return the effect that fences the current producer of `live`. `aborts`: if a transaction is
    open, the decision aborts it."""
    metadata = live.metadata
    return Fenced(
        fence_for(
            metadata.transactional_id,
            metadata.owner,
            live.client,
            reason,
            aborted=aborts and metadata.state is State.ONGOING,
            wall_ms=wall_ms,
        )
    )


def refuse(
    live: LiveTransaction,
    producer_id: int,
    producer_epoch: int,
    result: TransactionResult = FENCED,
    *,
    in_group: bool = False,
) -> Decision[TransactionResult]:
    """Return the decision that refuses a fenced or unknown producer. `in_group`: the request names
    a consumer group for its transactional id. Such a client knows oncelog's own error codes."""
    fence = fence_of(live.fences, producer_id, producer_epoch)
    if fence is not None:
        if in_group and fence.cause is FenceCause.CONCURRENT_COMMIT:
            result = CONCURRENT_COMMIT
        result = replace(result, message=describe(fence))
    counted = ProducerRefused(live.metadata.transactional_id, producer_id, producer_epoch)
    return Decision(result, effects=(counted,))


# Refuses a transactional id that this coordinator does not have, or that is not in the consumer
# group of the request.
REFUSE_UNKNOWN: Final[Decision[TransactionResult]] = Decision(
    UNKNOWN_PRODUCER, effects=(RefusalCounted(),)
)
