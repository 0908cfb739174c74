"""Records of the internal topics as JSON, in the form of Kafka's dump tool.

The sources are Kafka's CoordinatorRecordSerde and the generated JsonConverters.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.features import FIRST_OWN_TAG
from oncelog_protocol.internal.consumer_protocol import decode_assignment, decode_subscription
from oncelog_protocol.internal.group_metadata import (
    GROUP_METADATA,
    decode_group_metadata_value,
    decode_offset_commit_value,
)
from oncelog_protocol.internal.group_metadata import decode_key as decode_group_key
from oncelog_protocol.internal.transaction_group import KEY_TYPE as TRANSACTION_GROUP
from oncelog_protocol.internal.transaction_group import (
    decode_transaction_group_key,
    decode_transaction_group_value,
)
from oncelog_protocol.internal.transaction_log import (
    KEY_TYPE as TRANSACTION,
)
from oncelog_protocol.internal.transaction_log import (
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.transaction_pointer import KEY_TYPE as TRANSACTION_POINTER
from oncelog_protocol.internal.transaction_pointer import (
    decode_transaction_pointer_key,
    decode_transaction_pointer_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion, read_version
from oncelog_protocol.records.record import Record
from oncelog_protocol.schema import Field, schema_of
from oncelog_protocol.types import Array, Nested, uuid, uuid_to_string

CONSUMER: Final = "consumer"
TRANSACTION_TOPIC: Final = "__transaction_state"
OFFSETS_TOPIC: Final = "__consumer_offsets"
# By record type of `__transaction_state`: the decoders of key and value.
_OF_TRANSACTIONS: Final[dict[int, tuple[Callable[[bytes], object], Callable[[bytes], object]]]] = {
    TRANSACTION: (decode_transaction_log_key, decode_transaction_log_value),
    TRANSACTION_GROUP: (decode_transaction_group_key, decode_transaction_group_value),
    TRANSACTION_POINTER: (decode_transaction_pointer_key, decode_transaction_pointer_value),
}


class Decoded(NamedTuple):
    """A key and a value as text. A part that is None is not printed."""

    key: str | None
    value: str | None


Decoder: TypeAlias = Callable[[Record], Decoded]


def decode_text(record: Record) -> Decoded:
    """Return the key and value decoded from UTF-8 (Kafka's StringDecoder)."""
    return Decoded(
        None if record.key is None else record.key.decode("utf-8", "replace"),
        None if record.value is None else record.value.decode("utf-8", "replace"),
    )


def offsets_decoder(record: Record) -> Decoded:
    """Return a record of `__consumer_offsets` as `--offsets-decoder` prints it."""
    return _decode(record, _offsets)


def transactions_decoder(*, with_own: bool) -> Decoder:
    """Return the decoder of `__transaction_state` that `--transaction-log-decoder` uses.

    `with_own` adds parts that Kafka's tool omits: oncelog's own record types and tagged fields.
    """

    def decode(record: Record) -> Decoded:
        return _decode(record, lambda key, value: _transactions(key, value, with_own=with_own))

    return decode


class _Unknown(Exception):
    def __init__(self, kind: int) -> None:
        super().__init__(kind)
        self.kind = kind


def _decode(
    record: Record, decode: Callable[[bytes, bytes | None], tuple[Any, Any | None]]
) -> Decoded:
    key, offset = record.key, record.offset
    if key is None:
        return Decoded(f"Error at offset {offset}, skipping. The record has no key.", None)
    try:
        key_json, value_json = decode(key, record.value)
    except _Unknown as unknown:
        return Decoded(f"Unknown record type {unknown.kind} at offset {offset}, skipping.", None)
    except (ProtocolError, UnknownRecordVersion, ValueError) as error:
        return Decoded(f"Error at offset {offset}, skipping. {error}", None)
    value = "<DELETE>" if value_json is None else json_text(value_json)
    return Decoded(json_text(key_json), value)


def _offsets(key: bytes, value: bytes | None) -> tuple[Any, Any | None]:
    kind = read_version("key", key)
    try:
        decoded_key = decode_group_key(key)
    except UnknownRecordVersion:
        raise _Unknown(kind) from None
    key_json = {"type": str(kind), "data": to_json(decoded_key, 0)}
    if value is None:
        return key_json, None
    version = read_version("value", value)
    if kind != GROUP_METADATA:
        data = to_json(decode_offset_commit_value(value), version)
    else:
        group = decode_group_metadata_value(value)
        data = to_json(group, version)
        if group.protocol_type == CONSUMER:
            for member, row in zip(group.members, data["members"], strict=True):
                _open(row, "subscription", member.subscription, decode_subscription)
                _open(row, "assignment", member.assignment, decode_assignment)
    return key_json, {"version": str(version), "data": data}


def _open(row: dict[str, Any], name: str, data: bytes, decode: Callable[[bytes], object]) -> None:
    """Replace the bytes of a subscription or assignment by JSON. Undecodable bytes stay
    unchanged."""
    try:
        row[name] = to_json(decode(data), min(read_version(name, data), 3))
    except (ProtocolError, ValueError):
        return


def _transactions(key: bytes, value: bytes | None, *, with_own: bool) -> tuple[Any, Any | None]:
    kind = read_version("key", key)
    codecs = _OF_TRANSACTIONS.get(kind)
    if codecs is None or (kind >= FIRST_OWN_TAG and not with_own):
        raise _Unknown(kind)
    decode_key, decode_value = codecs
    decoded_key = decode_key(key)
    key_json = {"type": str(kind), "data": to_json(decoded_key, 0)}
    if value is None:
        return key_json, None
    version = read_version("value", value)
    return key_json, {
        "version": str(version),
        "data": to_json(decode_value(value), version, with_own=with_own),
    }


def to_json(message: object, version: int, *, with_own: bool = True) -> dict[str, Any]:
    """Return a message in the form of Kafka's JsonConverters.

    The result has the fields of `version` in their order, and tagged fields only if they differ
    from their default. `with_own` includes oncelog's own tagged fields.
    """
    found: dict[str, Any] = {}
    for field in schema_of(type(message)).fields:
        if not field.present(version):
            continue
        value = getattr(message, field.name)
        if field.tag is not None and (
            (field.tag >= FIRST_OWN_TAG and not with_own) or _is_default(field, value)
        ):
            continue
        found[_camel(field.name)] = _value(field.type, value, version, with_own=with_own)
    return found


def _is_default(field: Field, value: object) -> bool:
    if isinstance(field.type, Array):
        return not value
    return value == field.default


def _value(kind: Any, value: Any, version: int, *, with_own: bool) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_value(kind.of, element, version, with_own=with_own) for element in value]
    if isinstance(kind, Nested | type):
        return to_json(value, version, with_own=with_own)
    if kind is uuid:
        return uuid_to_string(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def json_text(value: Any) -> str:
    """Return the JSON in one line, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
