"""The decoder's half of the code generator. The checks of a decoder protect the broker.

A decoder checks lengths before it allocates memory, string lengths against Kafka's limit, and array
counts against the bytes that are left. It checks that a message has no more array elements than its
budget, and that tags are in ascending order. A failed check raises ProtocolError.
"""

from __future__ import annotations

import struct as _struct
from typing import Any

from oncelog_protocol.codegen import Source
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.schema import Field, Schema, minimal_size, schema_of
from oncelog_protocol.types import (
    MAX_STRING,
    Array,
    Default,
    FieldType,
    Nested,
    Primitive,
    records,
    string,
)
from oncelog_protocol.unsigned_varint import MAX_TAGS, continue_uvarint, skip_tags

MAX_ELEMENTS = 1_000_000
"""Maximum number of array elements in one message, over all arrays. A caller may set a lower
maximum."""

# The first line of a decoder of records: each `records` field is a slice of this view.
_VIEW = " view = memoryview(b)"


class DecoderSource(Source):
    """The source of a decoder. In the lines `b` is the buffer, `p` the position, `end` the buffer's
    length, `left` the element budget. `sliced`: make a generator that yields after each element of
    an array of structs."""

    def __init__(self, schema: Schema, version: int, *, sliced: bool = False) -> None:
        super().__init__(schema, version, f"def decode(b, p, left={MAX_ELEMENTS}):")
        self._sliced = sliced
        self._pending: list[tuple[str, str]] = []
        self.scope.update(
            ProtocolError=ProtocolError,
            struct_error=_struct.error,
            unpack_array=_struct.unpack_from,
            uvarint=continue_uvarint,
            skip_tags=skip_tags,
            new=object.__new__,
            fail=self._fail,
        )
        self.line("end = len(b)")
        with self.block("try:"):
            made = self._struct(schema)
            self.line(f"return {made}, p")
            if sliced:
                self.line("yield")  # makes the decoder a generator even without an array
        with self.block("except (IndexError, struct_error, UnicodeDecodeError) as error:"):
            self.line("raise ProtocolError(f'{title}: cut off or not UTF-8: {error}') from error")
        self.scope["title"] = self.title

    def _fail(self, what: str, position: int) -> ProtocolError:
        return ProtocolError(f"{self.title}: bad {what} before byte {position}")

    # ── fields of fixed size: collected until the position is needed ───────────────────────────

    def _take(self, format: str) -> str:
        name = self.fresh()
        self._pending.append((format, name))
        return name

    def _flush(self) -> None:
        if not self._pending:
            return
        format = "".join(code for code, _ in self._pending)
        if format == "B":
            self.line(f"{self._pending[0][1]} = b[p]")
            self.line("p += 1")
        else:
            names = ", ".join(name for _, name in self._pending)
            comma = "," if len(self._pending) == 1 else ""
            self.line(f"{names}{comma} = {self.layout(format, 'unpack_from')}(b, p)")
            self.line(f"p += {_struct.calcsize('>' + format)}")
        self._pending.clear()

    def _uvarint(self, most: tuple[str, int] | None = None) -> str:
        """Write lines that read a varint, and return the varint's name. The first byte is read
        together with the fields before it. `most`: the meaning of the varint and its maximum, which
        is above 127."""
        name = self._take("B")
        self._flush()
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, p = uvarint(b, p, {name})")
            if most is not None:
                self.line(f"if {name} > {most[1]}: raise fail({most[0]!r}, p)")
        return name

    def _size_of_records(self) -> str:
        """Write lines that read the length of records in a flexible version, and return its name.

        Two bytes hold the length of nearly every batch. Both are read together with the fields
        before them. If the length has one byte, the second byte belongs to the next field. The
        second byte always exists, because the number of tagged fields follows.
        """
        name, second = self._take("B"), self._take("B")
        self._flush()
        self.line(f"if {name} < 128: p -= 1")
        self.line(f"elif {second} < 128: {name} += ({second} << 7) - 128")
        self.line(f"else: {name}, p = uvarint(b, p - 1, {name})")
        return name

    def _length(self, classic: str, most: tuple[str, int] | None = None) -> tuple[str, str, str]:
        """Write lines that read a length. Return its name, the test for null, and the expression of
        the true length."""
        if self.flexible:
            name = self._uvarint(most)
            return name, f"{name} == 0", f"{name} - 1"
        name = self._take(classic)
        self._flush()
        return name, f"{name} == -1", name

    # ── values: each returns the expression that holds the value ───────────────────────────────

    def _value(self, kind: FieldType | type, name: str, nullable: bool) -> str:
        if isinstance(kind, Primitive):
            if kind.format:
                return self._take(kind.format)
            return self._sized(kind, name, nullable)
        if isinstance(kind, Array):
            return self._array(kind, name, nullable)
        if isinstance(kind, Nested):
            return self._nested(kind, nullable)
        return self._struct(schema_of(kind))

    def _sized(self, kind: Primitive, name: str, nullable: bool) -> str:
        if kind is string:
            # In a version that is not flexible the length is an int16, which cannot exceed
            # MAX_STRING.
            _, null, length = self._length("h", ("length of " + name, MAX_STRING + 1))
        elif kind is records and self.flexible:
            size = self._size_of_records()
            null, length = f"{size} == 0", f"{size} - 1"
        else:
            _, null, length = self._length("i")
        value, stop = self.fresh(), self.fresh("e")
        if nullable:
            self.line(f"if {null}: {value} = None")
            self.line("else:")
            self.depth += 1
        if kind is records and self.lines[1] != _VIEW:
            self.lines.insert(1, _VIEW)
        self.line(f"{stop} = p + {length}")
        # Only an int32 can be negative. A compact length of 0 means null, which is an error here,
        # so `stop` is below the position.
        wrong = f"{stop} > end" if nullable and self.flexible else f"not p <= {stop} <= end"
        self.line(f"if {wrong}: raise fail({'length of ' + name!r}, p)")
        read = {
            "string": "str(b[p:{}], 'utf-8')",
            "bytes": "bytes(b[p:{}])",
            "records": "view[p:{}]",
        }[kind.name]
        self.line(f"{value} = {read.format(stop)}")
        self.line(f"p = {stop}")
        if nullable:
            self.depth -= 1
        return value

    def _array(self, kind: Array, name: str, nullable: bool) -> str:
        count, null, length = self._length("i")
        value = self.fresh()
        if nullable:
            self.line(f"if {null}: {value} = None")
            self.line("else:")
            self.depth += 1
        if length != count:
            self.line(f"{count} = {length}")
        size = minimal_size(kind.of, self.version, self.flexible)
        self.line(
            f"if {count} < 0 or {count} > left or {count} * {size} > end - p:"
            f" raise fail({'count of ' + name!r}, p)"
        )
        self.line(f"left -= {count}")
        if isinstance(kind.of, Primitive) and len(kind.of.format) == 1:
            code = f"f'>{{{count}}}{kind.of.format}'"
            self.line(f"{value} = list(unpack_array({code}, b, p)) if {count} else []")
            self.line(f"p += {count} * {size}")
        else:
            self.line(f"{value} = []")
            with self.block(f"for _ in range({count}):"):
                element = self._value(kind.of, name, nullable=False)
                self._flush()
                self.line(f"{value}.append({element})")
                if self._sliced and not isinstance(kind.of, Primitive):
                    self.line("yield")
        if nullable:
            self.depth -= 1
        return value

    def _nested(self, kind: Nested, nullable: bool) -> str:
        if not nullable:
            return self._struct(schema_of(kind.of))
        present, value = self._take("b"), self.fresh()
        self._flush()
        self.line(f"if {present} < 0: {value} = None")
        with self.block("else:"):
            self.line(f"{value} = {self._struct(schema_of(kind.of))}")
        return value

    def _struct(self, schema: Schema) -> str:
        values: dict[str, str] = {}
        for field in schema.present(self.version):
            values[field.name] = self._value(field.type, field.name, field.nullable(self.version))
        if self.flexible:
            values.update(self._tags(schema))
        self._flush()
        made = self.fresh("o")  # set field by field: a third faster than a call of the class
        self.line(f"{made} = new({self.constant('C', schema.cls)})")
        for field in schema.fields:
            self.line(f"{made}.{field.name} = {values.get(field.name) or self._default(field)}")
        return made

    def _default(self, field: Field) -> str:
        if field.default is not Default:
            return repr(field.default)
        if isinstance(field.type, Nested):
            return f"{self.constant('C', field.type.of)}()"
        return "[]"

    def _tags(self, schema: Schema) -> dict[str, str]:
        count = self._take("B")
        self._flush()
        fields = schema.tagged(self.version)
        if not fields:
            self.line(f"if {count}: p = skip_tags(b, p, {count})")
            return {}
        values = {field.name: self.fresh("t") for field in fields}
        for field in fields:
            self.line(f"{values[field.name]} = {self._default(field)}")
        tag, last, stop = self.fresh("t"), self.fresh("t"), self.fresh("e")
        with self.block(f"if {count}:"):
            self.line(f"if {count} > 127: {count}, p = uvarint(b, p, {count})")
            self.line(f"if {count} > {MAX_TAGS}: raise fail('number of tagged fields', p)")
            self.line(f"{last} = -1")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag} = {self._uvarint()}")
                self.line(f"if {tag} <= {last}: raise fail('order of tags', p)")
                self.line(f"{last} = {tag}")
                size = self._uvarint()
                self.line(f"{stop} = p + {size}")
                self.line(f"if {stop} > end: raise fail('size of a tagged field', p)")
                for position, field in enumerate(fields):
                    with self.block(f"{'el' if position else ''}if {tag} == {field.tag}:"):
                        nullable = field.nullable(self.version)
                        value = self._value(field.type, field.name, nullable)
                        self._flush()
                        self.line(f"{values[field.name]} = {value}")
                        self.line(f"if p != {stop}: raise fail({'size of ' + field.name!r}, p)")
                self.line(f"else: p = {stop}")
        return values


def generate_decoder(cls: type, version: int, *, sliced: bool = False) -> Any:
    """Return the decoder of one version; see `codecs.decoder` and `codecs.sliced_decoder`."""
    return DecoderSource(schema_of(cls), version, sliced=sliced).compile("decode")
