"""The producer ids of a transactional id that another principal takes over (H49). A producer id
belongs to one principal, so the new instance gets an id of its own, as after the last epoch of an
id (KIP-360). An id that belongs to every principal is replaced too, if a principal takes it
over."""

from __future__ import annotations

from oncelog_server.transaction.caller_role import CallerRole
from oncelog_server.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from oncelog_server.transaction.shard import TransactionShard


def needs_new_id(
    shard: TransactionShard, metadata: TransactionMetadata, role: CallerRole, principal: str
) -> bool:
    """Return True if the caller of InitProducerId needs a new producer id: the present id has no
    further epoch, or it is not of the principal of a new instance."""
    if metadata.is_epoch_exhausted:
        return True
    if role is not CallerRole.NEW_INSTANCE or metadata.producer_epoch == NO_PRODUCER_EPOCH:
        return False
    return shard.owner_of_id(metadata.owner[0]) != principal


def is_known(shard: TransactionShard, metadata: TransactionMetadata, producer_id: int) -> bool:
    """Return True if the producer id is, or was, that of the transactional id. Only the last id
    before a takeover by another principal counts: its producer is fenced. A producer with an id
    from before the last epoch gets INVALID_PRODUCER_ID_MAPPING, as in Kafka."""
    present = metadata.owner[0]
    if producer_id in (metadata.producer_id, present):
        return True
    return producer_id == metadata.previous_producer_id != NO_PRODUCER_ID and shard.owner_of_id(
        producer_id
    ) != shard.owner_of_id(present)
