r"""`consume -f`: records in the form of a template, with the tokens of kcat and rpk."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final, TypeAlias

import click

from oncelog_client.values import ConsumerRecord

Part: TypeAlias = Callable[[ConsumerRecord], bytes]

HELP: Final = r"""%t topic, %p partition, %o offset, %e leader epoch, %T timestamp in ms, %d time,
%k key, %K its size, %v or %s value, %V or %S its size, %h headers, %H their number, %% a percent;
%k{hex}, %v{base64}; \n, \t, \r, \\, \xHH"""

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_HEX_DIGITS: Final = 2


def _text(value: object) -> bytes:
    return str(value).encode("utf-8", "surrogateescape")


def _size(value: bytes | None) -> bytes:
    return _text(-1 if value is None else len(value))


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(_text(name) + b"=" + (value or b"") for name, value in record.headers)


def _time(record: ConsumerRecord) -> bytes:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return _text(record.timestamp_ms)
    return _text(moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


_TOKENS: Final[dict[str, Part]] = {
    "t": lambda record: _text(record.topic),
    "p": lambda record: _text(record.partition),
    "o": lambda record: _text(record.offset),
    "e": lambda record: _text(record.leader_epoch),
    "T": lambda record: _text(record.timestamp_ms),
    "d": _time,
    "k": lambda record: record.key or b"",
    "K": lambda record: _size(record.key),
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "V": lambda record: _size(record.value),
    "S": lambda record: _size(record.value),
    "h": _headers,
    "H": lambda record: _text(len(record.headers)),
    "%": lambda _: b"%",
}
_ENCODINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": lambda value: value.hex().encode(),
    "base64": base64.b64encode,
}
# The tokens of binary fields, which an encoding makes readable.
_OF_BYTES: Final = frozenset("kvs")


class RecordFormat:
    """A parsed template. `write` fills the template in."""

    def __init__(self, template: str) -> None:
        """Parse a template. Raises click.UsageError for an unknown token or escape."""
        self._parts: list[Part] = []
        literal = bytearray()
        rest = template
        while rest:
            character, rest = rest[0], rest[1:]
            if character == "\\":
                value, rest = _escape(rest)
                literal += value
            elif character == "%":
                if literal:
                    self._parts.append(_constant(bytes(literal)))
                    literal.clear()
                part, rest = _token(rest)
                self._parts.append(part)
            else:
                literal += _text(character)
        if literal:
            self._parts.append(_constant(bytes(literal)))

    def write(self, record: ConsumerRecord) -> bytes:
        """Return the template with the record's values. A missing key or value is empty."""
        return b"".join([part(record) for part in self._parts])


def _constant(value: bytes) -> Part:
    return lambda _: value


def _escape(rest: str) -> tuple[bytes, str]:
    kind = rest[:1]
    if kind == "x":
        digits = rest[1 : 1 + _HEX_DIGITS]
        try:
            return bytes.fromhex(digits), rest[1 + _HEX_DIGITS :]
        except ValueError:
            raise click.UsageError(f"-f: \\x{digits} is not \\x and two hex digits") from None
    if kind not in _ESCAPES:
        raise click.UsageError(f"-f: there is no escape \\{kind}. There are: {_one_line(HELP)}")
    return _ESCAPES[kind], rest[1:]


def _token(rest: str) -> tuple[Part, str]:
    name, rest = rest[:1], rest[1:]
    if name not in _TOKENS:
        raise click.UsageError(f"-f: there is no token %{name}. There are: {_one_line(HELP)}")
    part = _TOKENS[name]
    if not rest.startswith("{"):
        return part, rest
    encoding, brace, rest = rest[1:].partition("}")
    if not brace or encoding not in _ENCODINGS or name not in _OF_BYTES:
        raise click.UsageError(
            f"-f: %{name}{{{encoding}}}: %k, %v and %s can be encoded, as {{hex}} or {{base64}}"
        )
    encode = _ENCODINGS[encoding]
    return (lambda record: encode(part(record))), rest


def _one_line(text: str) -> str:
    return " ".join(text.split())
