"""A record type of oncelog in `__transaction_state`: the consumer group of a transactional id
(KIP-447, early draft). The record is in the partition of the id, and the partition of the group has
the id's state. The record's type is 10,001, so Kafka's readers skip it.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.features import TRANSACTION_POINTER_RECORD_TYPE
from oncelog_protocol.schema import message
from oncelog_protocol.types import Buffer, int64, string

from .versions import UnknownRecordVersion, decode_body, encode_versioned, read_version

KEY_TYPE: Final = TRANSACTION_POINTER_RECORD_TYPE
VALUE_VERSIONS: Final = range(0, 1)


@message(range(0, 1))
class TransactionPointerKey:
    """The key: a transactional id."""

    transactional_id: str = string()


@message(VALUE_VERSIONS, flexible_since=0)
class TransactionPointerValue:
    """The value: the group, and the time (wall clock, ms) of the record."""

    group_id: str = string()
    at_ms: int = int64()


def encode_transaction_pointer_key(key: TransactionPointerKey) -> bytes:
    """Return the record's key."""
    return encode_versioned(key, 0, KEY_TYPE)


def decode_transaction_pointer_key(data: Buffer) -> TransactionPointerKey:
    """Return the decoded key. Raises UnknownRecordVersion for a record of another type,
    ProtocolError for a damaged key."""
    kind = read_version("TransactionPointerKey", data)
    if kind != KEY_TYPE:
        raise UnknownRecordVersion("transaction pointer key", kind)
    return decode_body(TransactionPointerKey, 0, data)


def encode_transaction_pointer_value(value: TransactionPointerValue, version: int = 0) -> bytes:
    """Return the record's value."""
    return encode_versioned(value, version)


def decode_transaction_pointer_value(data: Buffer) -> TransactionPointerValue:
    """Return the decoded value. Raises UnknownRecordVersion for a newer version, ProtocolError for
    a damaged value."""
    version = read_version("TransactionPointerValue", data)
    if version not in VALUE_VERSIONS:
        raise UnknownRecordVersion("transaction pointer value", version)
    return decode_body(TransactionPointerValue, version, data)
