"""The encoder's half of the code generator: appends the parts of a message to a list.

The value of a `records` field is a separate part that is not changed, so that a range of a file can
be sent without being read.
"""

from __future__ import annotations

import struct as _struct
from itertools import compress
from typing import Any

from oncelog_protocol.codegen import Source
from oncelog_protocol.schema import Field, Schema, schema_of
from oncelog_protocol.types import (
    MESSAGE_FIELDS,
    NEVER,
    Array,
    Default,
    FieldType,
    Nested,
    Primitive,
    cut_utf8,
    records,
    string,
)
from oncelog_protocol.unsigned_varint import SMALL, write_uvarint


class EncoderSource(Source):
    """The source of an encoder. In the lines `o` is the message, and `a` appends a part. `sliced`:
    make a generator that yields after each element of an array of structs."""

    def __init__(self, schema: Schema, version: int, *, sliced: bool = False) -> None:
        super().__init__(schema, version, "def encode(o, a):")
        self._sliced = sliced
        # Depth of nested arrays at the current line.
        self._within = 0
        self._pending: list[tuple[str, str]] = []
        self._append = "a"
        self.scope.update(SMALL=SMALL, uvarint=write_uvarint, pack_array=_struct.pack)
        self.scope["cut_utf8"] = cut_utf8
        self._struct(schema, "o")
        self._flush()
        self.line("return None")
        if sliced:
            self.line("yield")  # makes the encoder a generator even without an array

    # ── values of fixed size: collected until another part is appended ────────────────────────

    def _put(self, format: str, value: str) -> None:
        self._pending.append((format, value))

    def _flush(self) -> None:
        if not self._pending:
            return
        format = "".join(code for code, _ in self._pending)
        values = [value for _, value in self._pending]
        if all(value.lstrip("-").isdigit() for value in values):
            self.line(f"{self._append}({_struct.pack('>' + format, *map(int, values))!r})")
        else:
            self.line(f"{self._append}({self.layout(format, 'pack')}({', '.join(values)}))")
        self._pending.clear()

    def _part(self, value: str) -> None:
        self._flush()
        self.line(f"{self._append}({value})")

    def _length(self, classic: str, value: str) -> None:
        if self.flexible:
            size = self.fresh("n")
            self.line(f"{size} = len({value}) + 1")
            self._part(f"SMALL[{size}] if {size} < {len(SMALL)} else uvarint({size})")
        else:
            self._put(classic, f"len({value})")

    def _null(self, classic: str) -> None:
        if self.flexible:
            self._put("B", "0")
        else:
            self._put(classic, "-1")

    # ── values ─────────────────────────────────────────────────────────────────────────────────

    def _value(
        self, kind: FieldType | type, value: str, nullable: bool, *, is_message: bool = False
    ) -> None:
        if isinstance(kind, Primitive) and kind.format:
            self._put(kind.format, value)
            return
        held = self.fresh("x")
        self.line(f"{held} = {value}")
        if not nullable:
            self._present(kind, held, is_message)
            return
        self._flush()
        with self.block(f"if {held} is None:"):
            if isinstance(kind, Primitive):
                self._null("h" if kind is string else "i")
            elif isinstance(kind, Array):
                self._null("i")
            else:
                self._put("b", "-1")
            self._flush()
        with self.block("else:"):
            if isinstance(kind, Nested):
                self._put("b", "1")
            self._present(kind, held, is_message)
            self._flush()

    def _present(self, kind: FieldType | type, value: str, is_message: bool) -> None:
        if isinstance(kind, Primitive):
            if kind is string:
                encoded = f"cut_utf8({value})" if is_message else f"{value}.encode()"
                self.line(f"{value} = {encoded}")
            self._length("h" if kind is string else "i", value)
            self._part(value)
        elif isinstance(kind, Array):
            self._array(kind, value)
        else:
            self._struct(schema_of(kind.of if isinstance(kind, Nested) else kind), value)

    def _array(self, kind: Array, value: str) -> None:
        self._length("i", value)
        self._flush()
        if isinstance(kind.of, Primitive) and len(kind.of.format) == 1:
            self._part(f"pack_array(f'>{{len({value})}}{kind.of.format}', *{value})")
            return
        if self._sliced and self._within == 1 and not _holds_records(kind, self.version):
            self._remembered(kind, value)
        else:
            self._elements(kind, value)

    def _elements(self, kind: Array, value: str) -> None:
        element = self.fresh("q")
        self._within += 1
        with self.block(f"for {element} in {value}:"):
            if kind.takes_rows:
                assert isinstance(kind.of, type)
                rest = _rest_of_row(schema_of(kind.of), self.version, self.flexible)
                with self.block(f"if type({element}) is bytes:"):
                    self.line(f"{self._append}({element})")
                    self.line(f"{self._append}({rest!r})")
                with self.block("else:"):
                    self._value(kind.of, element, nullable=False)
                    self._flush()
            else:
                self._value(kind.of, element, nullable=False)
                self._flush()
            if self._sliced and not isinstance(kind.of, Primitive):
                self.line("yield")
        self._within -= 1

    def _remembered(self, kind: Array, value: str) -> None:
        """Write lines that encode an array within an array once for consecutive elements with the
        same list object. DescribeConfigs has such elements: topics with the same settings."""
        held, encoded, parts = self.fresh("h"), self.fresh("r"), self.fresh("s")
        self.lines.insert(1, f" {held} = {encoded} = None")
        with self.block(f"if {value} is not {held}:"):
            self.line(f"{parts} = []")
            outer, self._append = self._append, f"{parts}.append"
            self._elements(kind, value)
            self._append = outer
            self.line(f"{encoded} = b''.join({parts})")
            self.line(f"{held} = {value}")
        self.line(f"{self._append}({encoded})")

    def _struct(self, schema: Schema, value: str) -> None:
        for field in schema.present(self.version):
            held = f"{value}.{field.name}"
            is_message = field.name in MESSAGE_FIELDS
            self._value(field.type, held, field.nullable(self.version), is_message=is_message)
        if not self.flexible:
            return
        fields = schema.tagged(self.version)
        if fields:
            self._tags(fields, value)
        else:
            self._put("B", "0")

    def _tags(self, fields: list[Field], value: str) -> None:
        """Write the tagged fields that differ from their default, or an empty section."""
        self._flush()
        count, section = self.fresh("n"), self.fresh("s")
        self.line(f"{count} = 0")
        outer = self._append
        for field in fields:
            held = f"{value}.{field.name}"
            with self.block(f"if {self._differs(field, held)}:"):
                self.line(f"if not {count}: {section} = []")
                self.line(f"{count} += 1")
                tag = write_uvarint(field.tag or 0)
                if isinstance(field.type, Primitive) and field.type.format and len(tag) == 1:
                    size = _struct.calcsize(">" + field.type.format)
                    pack = self.layout(f"BB{field.type.format}", "pack")
                    self.line(f"{section}.append({pack}({field.tag}, {size}, {held}))")
                    continue
                parts = self.fresh("s")
                self.line(f"{parts} = []")
                self._append = f"{parts}.append"
                self._value(field.type, held, field.nullable(self.version))
                self._flush()
                self._append = outer
                self.line(f"{section}.append({tag!r})")
                self.line(f"{section}.append(uvarint(sum(map(len, {parts}))))")
                self.line(f"{section}.extend({parts})")
        with self.block(f"if {count}:"):
            self.line(f"{outer}(uvarint({count}))")
            self.line(f"for part in {section}: {outer}(part)")
        self.line(f"else: {outer}(b'\\0')")

    def _differs(self, field: Field, held: str) -> str:
        if isinstance(field.type, Nested):
            inner = schema_of(field.type.of).fields
            if all(isinstance(part.type, Primitive) for part in inner):
                # Much faster than the comparison of two structs. Fetch has four such fields.
                parts = (f"{held}.{part.name} != {part.default!r}" for part in inner)
                return f"{held} is not None and ({' or '.join(parts)})"
            default = self.constant("D", field.type.of())
            return f"{held} is not None and {held} != {default}"
        if field.default is Default:
            return f"{held} is None or {held}" if field.nullable(self.version) else held
        if field.default is None:
            return f"{held} is not None"
        return f"{held} != {field.default!r}"


def _holds_records(kind: Array, version: int) -> bool:
    """Return True if an element may contain `records`, because such a part need not be bytes."""
    if isinstance(kind.of, Primitive):
        return kind.of is records
    return any(field.type is records for field in schema_of(kind.of).present(version))


def _leading(schema: Schema) -> list[tuple[Field, str]]:
    """Return the leading fields of fixed size of all versions, with their formats."""
    leading: list[tuple[Field, str]] = []
    for field in schema.fields:
        if not isinstance(field.type, Primitive) or not field.type.format:
            break
        leading.append((field, field.type.format))
    return leading


def _rest_of_row(schema: Schema, version: int, flexible: bool) -> bytes:
    """Return the bytes after the leading fields of a row. These fields have their defaults in every
    row."""
    rest = schema._replace(
        fields=schema.fields[len(_leading(schema)) :],
        versions=range(version, version + 1),
        flexible_since=version if flexible else NEVER,
    )
    parts: list[bytes] = []
    EncoderSource(rest, version).compile("encode")(schema.cls(), parts.append)
    return b"".join(parts)


def generate_row_encoder(row: type, version: int) -> Any:
    """Return the function that packs the leading fields of a `row`; see `codecs.row_encoder`."""
    leading = _leading(schema_of(row))
    present = [field.present(version) for field, _ in leading]
    formats = compress([format for _, format in leading], present)
    pack = _struct.Struct(">" + "".join(formats)).pack
    if all(present):
        return pack
    return lambda *values: pack(*compress(values, present))


def generate_encoder(cls: type, version: int, *, sliced: bool = False) -> Any:
    """Return the encoder of one version; see `codecs.encoder` and `codecs.sliced_encoder`."""
    return EncoderSource(schema_of(cls), version, sliced=sliced).compile("encode")
