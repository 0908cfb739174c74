"""Tests compare our bytes with those of kio, a library generated from Kafka's own definitions."""

from __future__ import annotations

import datetime
import enum
import io
import uuid
from dataclasses import fields, is_dataclass
from typing import Any

from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from oncelog_protocol.apis import APIS
from oncelog_protocol.features import FIRST_OWN_TAG
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import ZERO_UUID, Array, Nested
from oncelog_protocol.types import uuid as uuid_type

_found: dict[tuple[type, int], Any] = {}


def kio_class(cls: type[Any], version: int) -> Any:
    """Return kio's class for one of our messages, or None if kio does not have the version."""
    if (cls, version) not in _found:
        _found[cls, version] = _load(cls, version)
    return _found[cls, version]


def _load(cls: type[Any], version: int) -> Any:
    api = next(api for api in APIS.values() if cls in (api.request, api.response))
    try:
        if cls is api.request:
            module = load_payload_module(api.key, version, EntityType.request)
        else:
            module = load_payload_module(api.key, version, EntityType.response)
    except (UnknownAPIKey, UnknownEntity):
        return None
    return getattr(module, cls.__name__)


def kio_read(kio_cls: Any, raw: bytes) -> Any:
    """Return the message as kio reads it. Fails if bytes remain."""
    entity, used = entity_reader(kio_cls)(raw, 0)
    assert used == len(raw)
    return entity


def without_ours(message: Any) -> Any:
    """Return the same message with our own tagged fields at their defaults. Clients skip unknown
    tagged fields, but kio does not."""
    schema = schema_of(type(message))
    values = {}
    for field in schema.fields:
        if field.tag is not None and field.tag >= FIRST_OWN_TAG:
            continue
        value = getattr(message, field.name)
        if isinstance(field.type, Array) and isinstance(field.type.of, type) and value is not None:
            value = [without_ours(element) for element in value]
        elif isinstance(field.type, Nested) and value is not None:
            value = without_ours(value)
        values[field.name] = value
    return type(message)(**values)


def kio_write(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def same(ours: Any, theirs: Any, version: int) -> bool:
    """Return True if two messages hold the same values. Fields are compared in the order of
    their definition."""
    schema = schema_of(type(ours))
    present = [
        field
        for field in schema.fields
        if field.present(version) and (field.tag is None or field.tag < FIRST_OWN_TAG)
    ]
    rows = fields(theirs)
    assert len(present) == len(rows), (schema.name, rows)
    for field, row in zip(present, rows, strict=True):
        mine, other = getattr(ours, field.name), getattr(theirs, row.name)
        if mine is None and field.tag is not None and isinstance(field.type, Nested):
            mine = field.type.of()
        if field.type is uuid_type and other is None:
            other = uuid.UUID(bytes=ZERO_UUID)
        if not _same_value(mine, other, version):
            return False
    return True


def _same_value(mine: Any, other: Any, version: int) -> bool:
    if is_dataclass(other):
        return same(mine, other, version)
    if isinstance(other, tuple):
        pairs = zip(mine, other, strict=False)
        return len(mine) == len(other) and all(_same_value(a, b, version) for a, b in pairs)
    if isinstance(other, uuid.UUID):
        return bool(mine == other.bytes)
    if other is None and mine == ZERO_UUID:
        return True
    if isinstance(other, datetime.timedelta):
        return bool(mine == other // datetime.timedelta(milliseconds=1))
    if isinstance(other, datetime.datetime):
        return bool(mine == round(other.timestamp() * 1000))
    if isinstance(other, enum.IntEnum):
        return bool(mine == int(other))
    return bool(mine == other) or (other is None and mine == -1)
