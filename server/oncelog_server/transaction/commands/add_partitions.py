"""AddPartitionsToTxn and AddOffsetsToTxn. The command comes from the client, or from the leader
that received the data (KIP-890 part 2)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision, Effect
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import ClientRequest, client_of
from oncelog_server.transaction.decisions import REFUSE_UNKNOWN, change, refuse
from oncelog_server.transaction.effects import ClientKnown, StartTimer
from oncelog_server.transaction.metadata import TransactionMetadata
from oncelog_server.transaction.results import (
    BUSY,
    INVALID_REQUEST,
    INVALID_STATE,
    SUCCESS,
    UNKNOWN_PRODUCER,
    TransactionResult,
)
from oncelog_server.transaction.shard import TransactionShard
from oncelog_server.transaction.states import ADD_PARTITIONS, State, Verdict
from oncelog_server.transaction.takeover import is_known


class AddPartitions(msgspec.Struct, frozen=True):
    """A command that adds partitions to a transaction. `verify_only`: check whether the partitions
    are in the transaction, and add nothing (KIP-890 part 1). `group_id`: the consumer group of the
    transactional id, None without one. With a group, the hash of the group selects the shard of the
    transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_transaction_version: int = 0
    verify_only: bool = False
    group_id: str | None = None
    caller: ClientRequest | None = None


def decide_add_partitions(
    shard: TransactionShard, command: AddPartitions, *, now_ms: int, wall_ms: int
) -> Decision[TransactionResult]:
    """Return the decision that records the new partitions. The response waits for the commit of the
    record. If the transaction already has all the partitions, the decision has no record (scenario
    R13). `now_ms` is monotonic."""
    if not command.transactional_id:
        return Decision(INVALID_REQUEST)
    live = shard.get(command.transactional_id)
    if live is None:
        return REFUSE_UNKNOWN
    metadata = live.metadata
    if command.verify_only and _is_verified(shard, command, metadata):
        return Decision(SUCCESS)
    # This check must come first (KAFKA-18660): while a change of the producer id is pending, the
    # producer may already use the new id.
    if live.pending is not None or ADD_PARTITIONS.get(metadata.state) is Verdict.BUSY:
        return Decision(BUSY)
    # The owner is the producer that may send requests. Its producer id may differ from that of the
    # transaction, if a newer instance has kept the transaction open (KIP-939).
    if not is_known(shard, metadata, command.producer_id):
        return refuse(live, command.producer_id, command.producer_epoch, UNKNOWN_PRODUCER)
    if not metadata.is_held_by(command.producer_id, command.producer_epoch):
        return refuse(
            live,
            command.producer_id,
            command.producer_epoch,
            in_group=command.group_id is not None,
        )
    if shard.group_of(command.transactional_id) != command.group_id:
        return REFUSE_UNKNOWN
    ongoing = metadata.state is State.ONGOING
    if ongoing and metadata.next_producer_epoch >= 0:
        # The newer instance that has kept the transaction open may only end it (KIP-939).
        return Decision(INVALID_STATE)
    if ongoing and command.partitions <= metadata.partitions:
        return Decision(SUCCESS)
    if command.verify_only:
        return Decision(TransactionResult(ErrorCode.TRANSACTION_ABORTABLE))
    if metadata.state not in ADD_PARTITIONS:
        return Decision(INVALID_STATE)
    target = replace(
        metadata,
        state=State.ONGOING,
        partitions=metadata.partitions | command.partitions if ongoing else command.partitions,
        start_ms=metadata.start_ms if ongoing else wall_ms,
        last_update_ms=wall_ms,
        client_transaction_version=command.client_transaction_version,
    )
    if target.decided_members:
        target = replace(target, decided_members=())
    client = live.client
    effects: tuple[Effect, ...] = ()
    if not ongoing:
        effects = (StartTimer(command.transactional_id, now_ms + metadata.timeout_ms),)
        if client is None and command.caller is not None:
            # The client is unknown, because another coordinator has initialized the id.
            client = client_of(command.caller)
            effects = (*effects, ClientKnown(command.transactional_id, client))
    return change(target, SUCCESS, *effects, opened_by=client)


def _is_verified(
    shard: TransactionShard, command: AddPartitions, metadata: TransactionMetadata
) -> bool:
    """Return True if the open transaction of this producer has the partitions (KIP-890 part 1).

    As in Kafka, a pending decision delays no verification. A pending EndTxn does not matter: in
    each partition, its marker comes after the records of this batch, or makes the partition refuse
    the batch.
    """
    return (
        metadata.state is State.ONGOING
        and metadata.next_producer_epoch < 0
        and command.partitions <= metadata.partitions
        and metadata.is_held_by(command.producer_id, command.producer_epoch)
        and shard.group_of(command.transactional_id) == command.group_id
    )
