"""The records of `__transaction_state`: one for each transition of a transactional id.

Source: Kafka's TransactionLogKey and TransactionLogValue (KIP-98, KIP-890).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import Buffer, array, int8, int16, int32, int64, string

from .versions import UnknownRecordVersion, decode_body, encode_versioned, read_version

KEY_TYPE: Final = 0
VALUE_VERSIONS: Final = range(0, 2)
# The version that oncelog writes.
VALUE_VERSION: Final = 1


class TransactionState(IntEnum):
    """`transaction_status`: the state of a transaction."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """Return the name in the admin APIs and tools, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")


@message(range(0, 1))
class TransactionLogKey:
    """The key: a transactional id."""

    transactional_id: str = string()


@struct
class PartitionsSchema:
    """Partitions of one topic in a transaction."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


@struct
class DecidedMember:
    """Another transaction of the same group commit."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()


@message(VALUE_VERSIONS, flexible_since=1)
class TransactionLogValue:
    """The state after a transition. Kafka writes null for the partitions if the state is EMPTY.

    Five fields are oncelog's own. `last_producer_epoch`: Kafka keeps this value in memory only, and
    loses it on a fail-over. `decided_members`: the other transactions that a group commit named.
    `client_id`, `client_address` and `principal`: the client that opened the transaction, empty
    unless the state is ONGOING.
    """

    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, tag=0, default=-1)
    next_producer_id: int = int64(since=1, tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(since=1, tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(
        PartitionsSchema, nullable_since=0
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, tag=2)
    last_producer_epoch: int = int16(since=1, tag=OWN_TAGS["last_producer_epoch"], default=-1)
    decided_members: list[DecidedMember] = array(
        DecidedMember, since=1, tag=OWN_TAGS["decided_members"]
    )
    client_id: str = string(since=1, tag=OWN_TAGS["client_id"])
    client_address: str = string(since=1, tag=OWN_TAGS["client_address"])
    principal: str = string(since=1, tag=OWN_TAGS["principal"])


def encode_transaction_log_key(key: TransactionLogKey) -> bytes:
    """Return the record's key."""
    return encode_versioned(key, 0, KEY_TYPE)


def decode_transaction_log_key(data: Buffer) -> TransactionLogKey:
    """Return the decoded key. Raises UnknownRecordVersion for a record of another type,
    ProtocolError for a damaged key."""
    kind = read_version("TransactionLogKey", data)
    if kind != KEY_TYPE:
        raise UnknownRecordVersion("transaction log key", kind)
    return decode_body(TransactionLogKey, 0, data)


def encode_transaction_log_value(value: TransactionLogValue, version: int = VALUE_VERSION) -> bytes:
    """Return the record's value. Version 0, which Kafka uses below transaction.version 1, has no
    tagged fields."""
    return encode_versioned(value, version)


def decode_transaction_log_value(data: Buffer) -> TransactionLogValue:
    """Return the decoded value. Raises UnknownRecordVersion for a newer version, ProtocolError for
    a damaged value."""
    version = read_version("TransactionLogValue", data)
    if version not in VALUE_VERSIONS:
        raise UnknownRecordVersion("transaction log value", version)
    return decode_body(TransactionLogValue, version, data)
