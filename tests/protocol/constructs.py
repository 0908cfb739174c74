"""Codecs of messages from the library `construct`. The generated codecs must agree with them.

A construct is built from the same table as a codec, in another, slower way. Source: the protocol
guide, KIP-482 (compact lengths, tagged fields), KIP-893 (nullable structs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import construct as c

from oncelog_protocol.schema import Field, Schema, schema_of
from oncelog_protocol.types import (
    MAX_STRING,
    MESSAGE_FIELDS,
    Array,
    Default,
    FieldType,
    Nested,
    Primitive,
    cut_utf8,
    string,
)

if TYPE_CHECKING:  # these classes are generic only in the type stubs
    Construct = c.Construct[Any, Any]
    Adapter = c.Adapter[Any, Any, Any, Any]
else:
    Construct, Adapter = c.Construct, c.Adapter

FIXED: dict[str, Construct] = {
    "boolean": c.Flag,
    "int8": c.Int8sb,
    "int16": c.Int16sb,
    "uint16": c.Int16ub,
    "int32": c.Int32sb,
    "uint32": c.Int32ub,
    "int64": c.Int64sb,
    "float64": c.Float64b,
    "uuid": c.Bytes(16),
}
"""Types of a fixed size: the same in every version."""

COMPACT_LENGTH: Construct = c.ExprAdapter(c.VarInt, lambda n, _: n - 1, lambda n, _: n + 1)
"""A varint: the length plus one. Null is 0 on the wire and -1 here."""

FROM_BYTES: dict[str, Callable[[bytes], Any]] = {
    "string": lambda raw: raw.decode("utf-8"),
    "bytes": lambda raw: raw,
    "records": lambda raw: raw,
}


class Sized(Construct):
    """A length, then that many bytes. A length of -1 is null, where null is allowed."""

    def __init__(
        self, kind: Primitive, length: Any, nullable: bool, is_message: bool = False
    ) -> None:
        super().__init__()
        self.kind, self.length, self.nullable = kind, length, nullable
        self.is_message = is_message

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        size = self.length._parsereport(stream, context, path)
        if size == -1 and self.nullable:
            return None
        if size < 0 or (self.kind is string and size > MAX_STRING):
            raise c.IntegerError(f"length {size}", path=path)
        return FROM_BYTES[self.kind.name](c.stream_read(stream, size, path))

    def _build(self, value: Any, stream: Any, context: Any, path: str) -> Any:
        if value is None and self.nullable:
            self.length._build(-1, stream, context, path)
            return value
        raw = value.encode() if isinstance(value, str) else bytes(value)
        if self.is_message:
            raw = cut_utf8(value)
        self.length._build(len(raw), stream, context, path)
        c.stream_write(stream, raw, len(raw), path)
        return value


class Elements(Construct):
    """A count, then that many elements. A count of -1 is null, where null is allowed."""

    def __init__(self, element: Any, count: Any, nullable: bool) -> None:
        super().__init__()
        self.element, self.count, self.nullable = element, count, nullable

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        count = self.count._parsereport(stream, context, path)
        if count == -1 and self.nullable:
            return None
        if count < 0:
            raise c.IntegerError(f"count {count}", path=path)
        return [self.element._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, value: Any, stream: Any, context: Any, path: str) -> Any:
        self.count._build(
            -1 if value is None and self.nullable else len(value), stream, context, path
        )
        for element in value or ():
            self.element._build(element, stream, context, path)
        return value


class Optional(Construct):
    """A struct that may be null: a byte below 0 for null, else 1 and the struct (KIP-893)."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        if c.Int8sb._parsereport(stream, context, path) < 0:
            return None
        return self.inner._parsereport(stream, context, path)

    def _build(self, value: Any, stream: Any, context: Any, path: str) -> Any:
        c.Int8sb._build(-1 if value is None else 1, stream, context, path)
        if value is not None:
            self.inner._build(value, stream, context, path)
        return value


class Tagged(Construct):
    """Tagged fields as a dict of names: known ones decoded, unknown ones skipped (KIP-482)."""

    SECTION = c.PrefixedArray(c.VarInt, c.Sequence(c.VarInt, c.Prefixed(c.VarInt, c.GreedyBytes)))

    def __init__(self, fields: list[Field], inner: dict[int, Any]) -> None:
        super().__init__()
        self.fields = {field.tag or 0: field for field in fields}
        self.inner = inner

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        values = {field.name: default_of(field) for field in self.fields.values()}
        for tag, raw in self.SECTION._parsereport(stream, context, path):
            if tag in self.fields:
                whole = c.FocusedSeq("value", "value" / self.inner[tag], c.Terminated)
                values[self.fields[tag].name] = whole.parse(raw)
        return values

    def _build(self, values: Any, stream: Any, context: Any, path: str) -> Any:
        section: list[Any] = [
            [tag, self.inner[tag].build(values[field.name])]
            for tag, field in self.fields.items()
            if not is_default(field, values[field.name])
        ]
        self.SECTION._build(section, stream, context, path)
        return values


class Message(Adapter):
    """Converts construct's container to an instance of the message's class."""

    def __init__(self, schema: Schema, version: int, inner: Any) -> None:
        super().__init__(inner)
        self.schema, self.version = schema, version

    def _decode(self, container: Any, context: Any, path: str) -> Any:
        names = [field.name for field in self.schema.present(self.version)]
        values = {name: container[name] for name in names}
        return self.schema.cls(**values, **container.get("_tagged_fields", {}))

    def _encode(self, message: Any, context: Any, path: str) -> Any:
        values = {name: getattr(message, name) for name in self.schema.names}
        return {**values, "_tagged_fields": values}


_built: dict[tuple[type, int], Construct] = {}


def construct_of(cls: type, version: int) -> Construct:
    """Return the construct of a message in one version. The construct converts between bytes and
    instances of the message's class."""
    if (cls, version) not in _built:
        schema = schema_of(cls)
        _built[cls, version] = _message(schema, version, version >= schema.flexible_since)
    return _built[cls, version]


def default_of(field: Field) -> Any:
    """Return a new default value of a field."""
    if field.default is not Default:
        return field.default
    return field.type.of() if isinstance(field.type, Nested) else []


def is_default(field: Field, value: Any) -> bool:
    """Return True if a tagged field need not be written. A struct counts as default if it is None
    or if all its fields have their defaults."""
    if isinstance(field.type, Nested):
        return value is None or bool(value == field.type.of())
    return bool(value == default_of(field))


def _message(schema: Schema, version: int, flexible: bool) -> Message:
    members = [
        field.name
        / _field(
            field.type,
            field.nullable(version),
            version,
            flexible,
            is_message=field.name in MESSAGE_FIELDS,
        )
        for field in schema.present(version)
    ]
    if flexible:
        fields = schema.tagged(version)
        inner = {f.tag or 0: _field(f.type, f.nullable(version), version, True) for f in fields}
        members.append("_tagged_fields" / Tagged(fields, inner))
    return Message(schema, version, c.Struct(*members))


def _field(
    kind: FieldType | type,
    nullable: bool,
    version: int,
    flexible: bool,
    *,
    is_message: bool = False,
) -> Any:
    if isinstance(kind, Primitive):
        if kind.format:
            return FIXED[kind.name]
        length = COMPACT_LENGTH if flexible else c.Int16sb if kind is string else c.Int32sb
        return Sized(kind, length, nullable, is_message)
    if isinstance(kind, Array):
        element = _field(kind.of, False, version, flexible)
        return Elements(element, COMPACT_LENGTH if flexible else c.Int32sb, nullable)
    inner = _message(schema_of(kind.of if isinstance(kind, Nested) else kind), version, flexible)
    return Optional(inner) if nullable else inner
