"""A record type of oncelog in `__transaction_state`: the generation of a consumer group, and the
input partitions that the group has assigned to the process of a transactional id. Key and value are
those of the early draft of KIP-447 ("on-disk format"). The transaction records (`transaction_log`)
do not have these fields. The record's type is 10,000, so Kafka's readers skip it.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.features import TRANSACTION_GROUP_RECORD_TYPE
from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import Buffer, array, int32, string

from .versions import UnknownRecordVersion, decode_body, encode_versioned, read_version

KEY_TYPE: Final = TRANSACTION_GROUP_RECORD_TYPE
VALUE_VERSIONS: Final = range(0, 1)


@message(range(0, 1))
class TransactionGroupKey:
    """The key: a transactional id and its group."""

    group_id: str = string()
    transactional_id: str = string()


@struct
class AssignedTopic:
    """Input partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


@message(VALUE_VERSIONS)
class TransactionGroupValue:
    """The value: the generation, and the assigned input partitions."""

    generation_id: int = int32()
    assigned_partitions: list[AssignedTopic] = array(AssignedTopic)


def encode_transaction_group_key(key: TransactionGroupKey) -> bytes:
    """Return the record's key."""
    return encode_versioned(key, 0, KEY_TYPE)


def decode_transaction_group_key(data: Buffer) -> TransactionGroupKey:
    """Return the decoded key. Raises UnknownRecordVersion for a record of another type,
    ProtocolError for a damaged key."""
    kind = read_version("TransactionGroupKey", data)
    if kind != KEY_TYPE:
        raise UnknownRecordVersion("transaction group key", kind)
    return decode_body(TransactionGroupKey, 0, data)


def encode_transaction_group_value(value: TransactionGroupValue, version: int = 0) -> bytes:
    """Return the record's value."""
    return encode_versioned(value, version)


def decode_transaction_group_value(data: Buffer) -> TransactionGroupValue:
    """Return the decoded value. Raises UnknownRecordVersion for a newer version, ProtocolError for
    a damaged value."""
    version = read_version("TransactionGroupValue", data)
    if version not in VALUE_VERSIONS:
        raise UnknownRecordVersion("transaction group value", version)
    return decode_body(TransactionGroupValue, version, data)
