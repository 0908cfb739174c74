"""What is known of one transactional id, and its record in `__transaction_state`
(TransactionLogValue v1)."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Final, NamedTuple

from oncelog_protocol.internal.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_server.coordination.shard import CoordinatorRecord
from oncelog_server.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
# Epochs run 0..32766; 32767 only ever stands in the markers that end an id's last transaction
# (KIP-890).
LAST_PRODUCER_EPOCH: Final = 32766
# The timeout that is recorded for a participant in two-phase commit: it has none (KIP-939).
NO_TIMEOUT_MS: Final = 2**31 - 1


class TransactionMetadata(NamedTuple):
    """One transactional id at one moment. A record carries all of it, never a delta, so replay is
    assignment.

    `last_producer_epoch` is the epoch whose owner may still come back with a retry (KIP-360): the
    one before the last bump, or -1 if a newer instance of the producer made that bump.

    `next_producer_epoch` is not -1 where a newer instance has kept an open transaction (KIP-939):
    `next_producer_id` and it are then what the producer uses, while `producer_id` and
    `producer_epoch` stay those of the transaction, whose markers they go into.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    start_ms: int = -1
    last_update_ms: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def owner(self) -> tuple[int, int]:
        """The producer id and epoch that requests have to carry."""
        if self.next_producer_epoch >= 0:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch

    @property
    def is_kept(self) -> bool:
        """Whether a newer instance has kept the transaction open: it can only be ended now."""
        return self.next_producer_epoch >= 0 and self.state is TransactionState.ONGOING

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.owner[1] >= LAST_PRODUCER_EPOCH

    def is_held_by(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this is the producer that was handed the current epoch. The epoch after the last
        one is nobody's: it only ends transactions."""
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
        """After all markers: where the epochs ran out at the decision, the id chosen then takes
        over; where the transaction had been kept, the id and epoch of who kept it."""
        if self.next_producer_epoch >= 0:
            producer_id, producer_epoch = self.owner
            return self._replace(
                state=state,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                next_producer_id=NO_PRODUCER_ID,
                next_producer_epoch=NO_PRODUCER_EPOCH,
                partitions=frozenset(),
                last_update_ms=wall_ms,
            )
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return self._replace(
            state=state,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            previous_producer_id=self.producer_id if rotates else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=wall_ms,
        )


def to_record(metadata: TransactionMetadata) -> CoordinatorRecord:
    """The record for `__transaction_state`; partitions sorted, so that equal states are equal
    bytes."""
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=int(metadata.state),
        # Kafka writes null while there is no transaction.
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else _topics(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version,
        last_producer_epoch=metadata.last_producer_epoch,
    )
    return CoordinatorRecord(_key(metadata.transactional_id), encode_transaction_log_value(value))


@lru_cache(maxsize=1024)
def _topics(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    """A transaction's partitions are recorded again at every step: the list is not changed."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        by_topic[topic].append(partition)
    return [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in by_topic.items()]


@lru_cache(maxsize=4096)
def _key(transactional_id: str) -> bytes:
    return encode_transaction_log_key(TransactionLogKey(transactional_id=transactional_id))


def from_value(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Raises ValueError for a status that is not a state."""
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
        ),
        last_producer_epoch=value.last_producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
        next_producer_epoch=value.next_producer_epoch,
    )
