"""Records as lines of text, with the properties of Kafka's console producer and consumer."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import click

from oncelog_client.values import ConsumerRecord, Header

# Properties of the reader that may not be equal, in the order of Kafka's checks.
_DIFFERENT: Final = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    ("null.marker", "key.separator"),
    ("null.marker", "headers.separator"),
    ("null.marker", "headers.delimiter"),
    ("null.marker", "headers.key.separator"),
)
_ESCAPES: Final = {"t": "\t", "n": "\n", "\\": "\\"}
_TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """Kafka's LineMessageReader: a line is a value, or headers, key and value."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None
    ignore_error: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Return the format for `parse.key=true` and so on. Raises click.UsageError for an unknown
        property, and for properties that may not be equal."""
        reader = cls(**_known(cls, properties))
        if reader.conflict:
            raise click.UsageError(reader.conflict)
        return reader

    @property
    def conflict(self) -> str:
        """Return Kafka's message for two properties that are equal and may not be, or an empty
        text."""
        for first, second in _DIFFERENT:
            if self._property(first) == self._property(second):
                return f"{first} and {second} may not be equal"
        return ""

    def _property(self, name: str) -> str | None:
        value: str | None = getattr(self, name.replace(".", "_"))
        return value

    def read(self, line: bytes) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return (key, value, headers) of one line. If a separator is missing, the part is null
        with `ignore_error`. Raises ValueError without it, and for a header with the name of the
        null marker."""
        headers: list[Header] = []
        if self.parse_headers:
            text, line = self._cut(line, self.headers_delimiter, "headers.delimiter")
            if text is not None and self._nullable(text) is not None:
                headers = [self._header(part) for part in _split(text, self.headers_separator)]
        key = None
        if self.parse_key:
            text, line = self._cut(line, self.key_separator, "key.separator")
            key = None if text is None else self._nullable(text)
        return key, self._nullable(line), headers

    def _header(self, part: bytes) -> Header:
        name, value = self._cut(part, self.headers_key_separator, "headers.key.separator")
        if name is None:
            return part.decode(), None
        if self._nullable(name) is None:
            raise ValueError(f"the name of a header is the null.marker {self.null_marker!r}")
        return name.decode(), self._nullable(value)

    def _cut(self, line: bytes, separator: str, name: str) -> tuple[bytes | None, bytes]:
        """Return the parts before and after a separator. The first is None if there is none."""
        before, found, after = line.partition(separator.encode())
        if not found and self.ignore_error:
            return None, line
        if not found:
            raise ValueError(f"no {name} {separator!r} in {line[:80].decode(errors='replace')!r}")
        return before, after

    def _nullable(self, text: bytes) -> bytes | None:
        marker = self.null_marker
        return None if marker is not None and text == marker.encode() else text


@dataclass(frozen=True, slots=True, kw_only=True)
class LineWriter:
    """Kafka's DefaultMessageFormatter: the printed parts of a record, and the separators."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: str = "\t"
    line_separator: str = "\n"
    headers_separator: str = ","
    null_literal: str = "null"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Return the format for `print.key=true` and so on. Raises click.UsageError for an unknown
        property."""
        return cls(**_known(cls, properties))

    def write(self, record: ConsumerRecord) -> bytes:
        """Return the line of a record, with the bytes of key and value."""
        parts = []
        if self.print_timestamp:
            kind = _TIMESTAMP_TYPES.get(record.timestamp_type, "NO_TIMESTAMP")
            parts.append(f"{kind}:{record.timestamp_ms}".encode())
        if self.print_partition:
            parts.append(f"Partition:{record.partition}".encode())
        if self.print_offset:
            parts.append(f"Offset:{record.offset}".encode())
        if self.print_epoch:
            parts.append(f"Epoch:{record.leader_epoch}".encode())
        if self.print_headers:
            parts.append(self._headers(record))
        if self.print_key:
            parts.append(self._bytes(record.key))
        if self.print_value:
            parts.append(self._bytes(record.value))
        return self.key_separator.encode().join(parts) + self.line_separator.encode()

    def _headers(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        texts = (name.encode() + b":" + self._bytes(value) for name, value in record.headers)
        return self.headers_separator.encode().join(texts)

    def _bytes(self, value: bytes | None) -> bytes:
        return self.null_literal.encode() if value is None else value


def json_record(record: ConsumerRecord) -> dict[str, Any]:
    """Return a record for `--json`. Its key, value and header values are text if they are UTF-8,
    else `{"base64": ...}`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [[name, _json_bytes(value)] for name, value in record.headers],
    }


def _json_bytes(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _split(text: bytes, separator: str) -> list[bytes]:
    return text.split(separator.encode()) if text else []


def _known(cls: type[LineReader | LineWriter], properties: Mapping[str, str]) -> dict[str, Any]:
    """Parse properties into fields of the class: `parse.key=true` is parse_key=True."""
    fields = cls.__dataclass_fields__
    values: dict[str, Any] = {}
    for name, text in properties.items():
        field = name.replace(".", "_")
        if field not in fields:
            names = [known.replace("_", ".") for known in fields]
            from difflib import get_close_matches

            near = get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no property {name}{hint}")
        values[field] = (
            text.strip().lower() == "true" if fields[field].type == "bool" else _escaped(text)
        )
    return values


def _escaped(text: str) -> str:
    r"""Replace `\t`, `\n` and `\\` in an argument by a tab, a line end and a backslash."""
    return re.sub(r"\\([tn\\])", lambda match: _ESCAPES[match[1]], text)
