"""The role of a caller of InitProducerId in the present state of the transactional id (KIP-360)."""

from __future__ import annotations

from enum import Enum

from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)


class CallerRole(Enum):
    """The role of a caller in the present state of the transactional id (KIP-360)."""

    NEW_INSTANCE = "a new instance, without a producer id in its request: it takes over"
    CURRENT = "the current producer"
    PREVIOUS_EPOCH = "the producer with the epoch before the last bump: the response was lost"
    FENCED = "a fenced or unknown producer"


def caller_role(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> CallerRole:
    """Return the role of a caller. `producer_id` and `producer_epoch` are those of the request.
    They are -1 if the request names no producer."""
    if producer_id == NO_PRODUCER_ID:
        return CallerRole.NEW_INSTANCE
    # A new transactional id has no epoch yet. The producer id in the request is then from before
    # the expiry of the transactional id (scenario X2).
    if metadata.producer_epoch == NO_PRODUCER_EPOCH or metadata.is_held_by(
        producer_id, producer_epoch
    ):
        return CallerRole.CURRENT
    # A producer with `last_producer_epoch` was not fenced: InitProducerId of a newer instance would
    # have set `last_producer_epoch` to -1.
    if producer_epoch == metadata.last_producer_epoch:
        owner_id, owner_epoch = metadata.owner
        if producer_id == owner_id:
            if producer_epoch < owner_epoch:
                return CallerRole.PREVIOUS_EPOCH
        elif (
            producer_id == metadata.previous_producer_id
            and producer_epoch == LAST_PRODUCER_EPOCH
            and owner_epoch == 0
        ):
            return CallerRole.PREVIOUS_EPOCH
    return CallerRole.FENCED
