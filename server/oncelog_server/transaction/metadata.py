"""The state of one transactional id, and its record in `__transaction_state`
(TransactionLogValue v1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import astuple, replace

from oncelog_protocol.internal.transaction_log import (
    VALUE_VERSION,
    DecidedMember,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
# Epochs run from 0 to 32766. 32767 occurs only in the markers of the last transaction of a producer
# id (KIP-890).
LAST_PRODUCER_EPOCH: Final = 32766
# The recorded timeout of a participant in two-phase commit, which has no timeout (KIP-939).
NO_TIMEOUT_MS: Final = 2**31 - 1
# All empty sets share one object, because each call of `frozenset()` would return another object
# (scenario D10).
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class GroupedTransaction(NamedTuple):
    """A transaction in a group commit. Transactional id, producer id and epoch identify the
    transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionMetadata(msgspec.Struct, frozen=True, gc=False):
    """The state of one transactional id. A record has the whole state, never a delta, so replay is
    an assignment.

    `last_producer_epoch` is the epoch before the last bump. A producer with this epoch may still
    retry (KIP-360). `last_producer_epoch` is -1 if a newer instance of the producer made the bump.
    `next_producer_epoch` is -1 unless a newer instance has kept an open transaction (KIP-939). The
    newer instance then uses `next_producer_id` and `next_producer_epoch`. `producer_id` and
    `producer_epoch` stay those of the transaction and its markers.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    start_ms: int = -1
    last_update_ms: int = -1
    client_transaction_version: int = 0
    # From here on: fields that few transactions set.
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    # The members of the last group commit. The next transaction of this id clears them.
    decided_members: tuple[GroupedTransaction, ...] = ()

    @property
    def owner(self) -> tuple[int, int]:
        """Return the producer id and epoch that requests must have."""
        if self.next_producer_epoch >= 0:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch

    @property
    def is_kept(self) -> bool:
        """Return True if a newer instance has kept the transaction open. No partitions can then be
        added to the transaction."""
        return self.next_producer_epoch >= 0 and self.state is TransactionState.ONGOING

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.owner[1] >= LAST_PRODUCER_EPOCH

    def is_held_by(self, producer_id: int, producer_epoch: int) -> bool:
        """Return True if this producer has the current epoch. The epoch after the last epoch
        belongs to no producer, because this epoch only ends transactions."""
        if self.next_producer_epoch >= 0:
            return self.owner == (producer_id, producer_epoch) and (
                producer_epoch <= LAST_PRODUCER_EPOCH
            )
        return (
            self.producer_id == producer_id
            and self.producer_epoch == producer_epoch <= LAST_PRODUCER_EPOCH
        )

    @property
    def is_prepared(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    def completed(self, state: TransactionState, wall_ms: int) -> TransactionMetadata:
        """Return the state after all markers. If the decision used the last epoch, the new producer
        id replaces the old id. If the transaction was kept open, the id and epoch of the newer
        instance replace the old ones."""
        if self.next_producer_epoch >= 0:
            producer_id, producer_epoch = self.owner
            return replace(
                self,
                state=state,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                next_producer_id=NO_PRODUCER_ID,
                next_producer_epoch=NO_PRODUCER_EPOCH,
                partitions=NO_PARTITIONS,
                last_update_ms=wall_ms,
            )
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            state=state,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            previous_producer_id=self.producer_id if rotates else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=NO_PARTITIONS,
            last_update_ms=wall_ms,
        )


# Every step of every transaction writes the value of a record. Partitions and tagged fields seldom
# change between two steps, so these parts are encoded once and cached. Large parts (many
# partitions, a long name) are not cached. The members of a group commit are not cached either,
# because they differ every time.
_KEPT_PARTITIONS: Final = 32
_KEPT_NAME: Final = 256
_HEAD: Final = Struct(">hqhib")  # version, producer id, producer epoch, timeout, state
_TIMES: Final = Struct(">qq")  # last update, start
_NULL: Final = b"\x00"


def to_record(metadata: TransactionMetadata, client: Client | None = None) -> CoordinatorRecord:
    """Return the record for `__transaction_state`. Partitions are sorted, so that equal states have
    equal bytes. `client`: the client that opened the transaction. The record contains the
    client."""
    (
        transactional_id, producer_id, producer_epoch, timeout_ms, state, partitions,
        last_producer_epoch, previous_producer_id, next_producer_id,
        start_ms, last_update_ms, client_transaction_version, *rare,
    ) = astuple(metadata)  # fmt: skip
    partitions_of: Callable[..., bytes] = _partitions
    tagged_fields_of: Callable[..., bytes] = _tagged_fields
    if len(partitions) > _KEPT_PARTITIONS:
        partitions_of = _partitions.__wrapped__
    if metadata.decided_members:
        tagged_fields_of = _tagged_fields.__wrapped__
    tagged_fields = tagged_fields_of(
        previous_producer_id, next_producer_id, client_transaction_version,
        last_producer_epoch, *rare,
    )  # fmt: skip
    if client is not None:
        # The first byte is the number of all tagged fields. The client's tagged fields come last. A
        # long client id is cut, because every new partition of a transaction writes the client
        # again.
        clients = _client_fields(
            client.client_id[:_KEPT_NAME], client.client_address, client.principal[:_KEPT_NAME]
        )
        tagged_fields = bytes((tagged_fields[0] + clients[0],)) + tagged_fields[1:] + clients[1:]
    value = b"".join((
        _HEAD.pack(VALUE_VERSION, producer_id, producer_epoch, timeout_ms, state),
        # Kafka writes null while there is no transaction.
        _NULL if state is TransactionState.EMPTY else partitions_of(partitions),
        _TIMES.pack(last_update_ms, start_ms),
        tagged_fields,
    ))  # fmt: skip
    return tuple.__new__(CoordinatorRecord, (_key_of(transactional_id), value))


@lru_cache(maxsize=1024)
def _partitions(partitions: frozenset[TopicPartition]) -> bytes:
    """Return the encoded partitions of a value."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        by_topic[topic].append(partition)
    topics = [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in by_topic.items()]
    value = encode_transaction_log_value(TransactionLogValue(transaction_partitions=topics))
    return value[_HEAD.size : -_TIMES.size - 1]


@lru_cache(maxsize=4096)
def _tagged_fields(
    previous_producer_id: int,
    next_producer_id: int,
    client_transaction_version: int,
    last_producer_epoch: int,
    next_producer_epoch: int,
    decided_members: tuple[GroupedTransaction, ...],
) -> bytes:
    """Return the tagged fields at the end of a value. The result is cached, because producers that
    began together have the same epochs."""
    value = TransactionLogValue(
        transaction_partitions=None,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        client_transaction_version=client_transaction_version,
        last_producer_epoch=last_producer_epoch,
        next_producer_epoch=next_producer_epoch,
        decided_members=[DecidedMember(*decided_member) for decided_member in decided_members],
    )
    return encode_transaction_log_value(value)[_HEAD.size + 1 + _TIMES.size :]


@lru_cache(maxsize=1024)
def _client_fields(client_id: str, client_address: str, principal: str) -> bytes:
    """Return the number of a client's tagged fields, and the encoded fields."""
    value = TransactionLogValue(
        transaction_partitions=None,
        client_id=client_id,
        client_address=client_address,
        principal=principal,
    )
    return encode_transaction_log_value(value)[_HEAD.size + 1 + _TIMES.size :]


def client_in(value: TransactionLogValue) -> Client | None:
    """Return the client that opened the transaction. Return None if the record does not name the
    client."""
    client = Client(value.client_id, value.client_address, value.principal)
    return client if any(client) else None


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the tombstone of an id."""
    return CoordinatorRecord(_key_of(transactional_id), None)


def _key_of(transactional_id: str) -> bytes:
    if len(transactional_id) > _KEPT_NAME:
        return _key.__wrapped__(transactional_id)
    return _key(transactional_id)


@lru_cache(maxsize=4096)
def _key(transactional_id: str) -> bytes:
    return encode_transaction_log_key(TransactionLogKey(transactional_id=transactional_id))


def from_value(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Return the state in a record. Raises ValueError for an unknown status."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        )
        or NO_PARTITIONS,
        last_producer_epoch=value.last_producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
        next_producer_epoch=value.next_producer_epoch,
        decided_members=tuple(
            GroupedTransaction(
                decided_member.transactional_id,
                decided_member.producer_id,
                decided_member.producer_epoch,
            )
            for decided_member in value.decided_members
        ),
    )
