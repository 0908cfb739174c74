"""A row of the tables of settings: a name, a type, a default, a check and a description.

The types, the wording of errors and the text form of values are those of Kafka's ConfigDef.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import Field, field
from enum import IntEnum
from typing import Any, cast

import msgspec

from oncelog_protocol.secret import Secret
from oncelog_protocol.types import MAX_STRING


class Kind(IntEnum):
    """A setting's type; the number is that of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(IntEnum):
    HIGH = 0
    MEDIUM = 1
    LOW = 2


SettingValue = bool | int | float | str | Secret | tuple[str, ...] | None
Check = Callable[[Any], str | None]


class Setting(msgspec.Struct, frozen=True):
    """A row. `topic` is the topic setting that defaults to this setting, None if there is none.

    `entry` is the check of each entry of a list (Kafka's ValidList). No entry of such a list is
    empty, and an entry that it has twice counts once.
    """

    name: str
    kind: Kind
    default: SettingValue
    doc: str
    check: Check | None = None
    importance: Importance = Importance.MEDIUM
    topic: str | None = None
    entry: Check | None = None

    @property
    def attribute(self) -> str:
        """Return the name of the attribute of `Settings` or `LogConfig` that holds the value."""
        return self.name.replace(".", "_")


class InvalidValue(ValueError):
    """The error for a text that is not a valid value of a setting. The message is Kafka's."""


_TRUTH = {"true": True, "false": False}
_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
# What Java's String.trim removes: no other blanks of Unicode.
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))
# What Java's `\s` matches: the blanks around the commas of a list.
_SPACES = " \t\n\x0b\f\r"
# No pattern here may try a text of thousands of characters again from each of them: values of
# clients are parsed on the event loop.
# As in Java, a whole number may have the digits of any script that UTF-16 writes as one unit.
_NUMBER = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")
_DOUBLE = re.compile(
    r"[+-]?(?:Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)
# Java writes a double with an exponent if it is not in this range.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def parse_value(setting: Setting, text: str) -> SettingValue:
    """Return the value of `text`. Raises InvalidValue, worded as in Kafka's ConfigDef: for a text
    that is not of the type with the text, else with the value."""
    if setting.kind is not Kind.PASSWORD:
        check_length(setting.name, text)
    value = _parse_kind(setting, text)
    reason = setting.check(value) if setting.check is not None else None
    if reason is not None:
        shown = format_value(setting.kind, value)
        raise InvalidValue(f"Invalid value {shown} for configuration {setting.name}: {reason}")
    return value


def check_length(name: str, text: str) -> None:
    """Raise InvalidValue if a text is longer than a string of DescribeConfigs may be."""
    size = len(text.encode())
    if size > MAX_STRING:
        raise InvalidValue(
            f"Invalid value for configuration {name}: it has {size} bytes, and the maximum is "
            f"{MAX_STRING}"
        )


def _parse_kind(setting: Setting, given: str) -> SettingValue:
    kind, text = setting.kind, given.strip(_BLANKS)
    if kind is Kind.BOOLEAN:
        truth = _TRUTH.get(text.lower())
        if truth is None:
            raise _invalid(setting, given, "Expected value to be either true or false")
        return truth
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        # int() also accepts "1_000", which Java refuses. It refuses thousands of digits.
        digits = text.lstrip("+-0") or "0"
        if not _NUMBER.fullmatch(text) or len(digits) > 20:
            raise _invalid(setting, given, f"Not a number of type {kind.name}")
        number = -int(digits) if text.startswith("-") else int(digits)
        if not -limit <= number < limit:
            raise _invalid(setting, given, f"Not a number of type {kind.name}")
        return number
    if kind is Kind.DOUBLE:
        # NaN is refused too: no rule about a number holds for it.
        if not _DOUBLE.fullmatch(text):
            raise _invalid(setting, given, "Not a number of type DOUBLE")
        return float(text.rstrip("fFdD"))
    if kind is Kind.LIST:
        entries = [entry.strip(_SPACES) for entry in text.split(",")] if text else ()
        return tuple(entries) if setting.entry is None else _valid_entries(setting, entries)
    if kind is Kind.PASSWORD:
        return Secret(text)
    return text


def _valid_entries(setting: Setting, entries: Iterable[str]) -> tuple[str, ...]:
    for entry in entries:
        if not entry:
            raise InvalidValue(f"Configuration '{setting.name}' values must not be empty.")
        reason = setting.entry(entry) if setting.entry is not None else None
        if reason is not None:
            raise _invalid(setting, entry, reason)
    return tuple(dict.fromkeys(entries))


def _invalid(setting: Setting, text: str, reason: str) -> InvalidValue:
    return InvalidValue(f"Invalid value {text} for configuration {setting.name}: {reason}")


def format_value(kind: Kind, value: SettingValue) -> str | None:
    """Return the text of a value, as DescribeConfigs shows it: the inverse of `parse_value`. Return
    None for a password, and for a setting without a value."""
    if value is None or kind is Kind.PASSWORD:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _format_double(value: float) -> str:
    """Return the text of Java's Double.toString."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    mantissa, _, exponent = repr(value).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if value < 0 else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The point stands after the first digit.
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"


def at_least(minimum: int) -> Check:
    """Return the check of a minimum (Kafka's Range.atLeast)."""
    return lambda value: f"Value must be at least {minimum}" if value < minimum else None


def between(minimum: float, maximum: float) -> Check:
    """Return the check of a range, both ends included (Kafka's Range.between)."""

    def check(value: Any) -> str | None:
        if value < minimum:
            return f"Value must be at least {minimum}"
        return f"Value must be no more than {maximum}" if value > maximum else None

    return check


def one_of(*allowed: str) -> Check:
    """Return the check that a text is allowed (Kafka's ValidString.in)."""
    reason = f"String must be one of: {', '.join(allowed)}"
    return lambda value: None if value in allowed else reason


def honoured(
    kind: Kind,
    default: SettingValue,
    doc: str,
    check: Check | None = None,
    *,
    importance: Importance = Importance.MEDIUM,
    topic: str | None = None,
    entry: Check | None = None,
) -> Any:
    """Return a dataclass field for a setting. The setting's name is the attribute's name with
    dots."""
    row = (kind, default, doc, check, importance, topic, entry)
    return field(default=cast(Any, default), metadata={"row": row})


def setting_of(row: Field[Any]) -> Setting:
    """Return the row that `honoured` stored in a dataclass field."""
    return Setting(row.name.replace("_", "."), *row.metadata["row"])


class Unhonoured(msgspec.Struct, frozen=True):
    """One of Kafka's settings without effect here: accepted or refused, for `reason`.

    `default` is Kafka's default, as text.
    """

    name: str
    kind: Kind
    default: str | None
    importance: Importance
    reason: str


_Row = tuple[str, Kind, str | None, Importance]


def unhonoured(rows_by_reason: dict[str, tuple[_Row, ...]]) -> dict[str, Unhonoured]:
    """Return the rows by name, each with its reason."""
    return {
        row[0]: Unhonoured(*row, reason) for reason, rows in rows_by_reason.items() for row in rows
    }
