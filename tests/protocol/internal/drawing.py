"""The messages of internal topics and of the consumer protocol. Some tests run on all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from oncelog_protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_metadata_value,
    decode_key,
    decode_offset_commit_value,
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from oncelog_protocol.internal.transaction_group import (
    TransactionGroupKey,
    TransactionGroupValue,
    decode_transaction_group_key,
    decode_transaction_group_value,
    encode_transaction_group_key,
    encode_transaction_group_value,
)
from oncelog_protocol.internal.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_log_key,
    decode_transaction_log_value,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_protocol.internal.transaction_pointer import (
    TransactionPointerKey,
    TransactionPointerValue,
    decode_transaction_pointer_key,
    decode_transaction_pointer_value,
    encode_transaction_pointer_key,
    encode_transaction_pointer_value,
)
from oncelog_protocol.schema import schema_of


class Kind(NamedTuple):
    """A message class with its encoder and decoder."""

    cls: type[Any]
    encode: Callable[..., bytes]
    decode: Callable[[bytes | memoryview], Any]


KEYS = [
    Kind(TransactionLogKey, encode_transaction_log_key, decode_transaction_log_key),
    Kind(TransactionGroupKey, encode_transaction_group_key, decode_transaction_group_key),
    Kind(TransactionPointerKey, encode_transaction_pointer_key, decode_transaction_pointer_key),
    Kind(OffsetCommitKey, encode_offset_commit_key, decode_key),
    Kind(GroupMetadataKey, encode_group_metadata_key, decode_key),
]
VALUES = [
    Kind(TransactionLogValue, encode_transaction_log_value, decode_transaction_log_value),
    Kind(TransactionGroupValue, encode_transaction_group_value, decode_transaction_group_value),
    Kind(
        TransactionPointerValue,
        encode_transaction_pointer_value,
        decode_transaction_pointer_value,
    ),
    Kind(OffsetCommitValue, encode_offset_commit_value, decode_offset_commit_value),
    Kind(GroupMetadataValue, encode_group_metadata_value, decode_group_metadata_value),
]
CONSUMER_PROTOCOL = [
    Kind(ConsumerProtocolSubscription, encode_subscription, decode_subscription),
    Kind(ConsumerProtocolAssignment, encode_assignment, decode_assignment),
]

VERSIONED = [
    (kind, version)
    for kind in (*VALUES, *CONSUMER_PROTOCOL)
    for version in schema_of(kind.cls).versions
]


def kind_id(value: object) -> str:
    return value.cls.__name__ if isinstance(value, Kind) else f"v{value}"
