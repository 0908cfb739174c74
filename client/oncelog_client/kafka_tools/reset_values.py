"""The values of the options of `kafka-consumer-groups.sh --reset-offsets`, with the messages of
Kafka's tool for invalid ones."""

from __future__ import annotations

import re
from typing import Final

import click

from oncelog_client.cli.reset import parse_datetime, parse_duration
from oncelog_client.kafka_tools.failures import JavaError
from oncelog_client.kafka_tools.options import Given

_LONGS: Final = ("to-offset", "shift-by")
_LONG: Final = re.compile(r"[+-]?\d+")
_LONG_MAX: Final = 2**63 - 1
_PARSING: Final = "java.text.ParseException"
_NO_TIME: Final = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"


def check_reset_values(given: Given) -> None:
    """Raise JavaError for a value that Kafka's tool cannot read (joptsimple, Utils.getDateTime,
    Java's Duration)."""
    for name in _LONGS:
        if given.has(name):
            _check_long(name, given.value(name) or "")
    if given.has("to-datetime"):
        _check_datetime(given.value("to-datetime") or "")
    if given.has("by-duration"):
        try:
            parse_duration(given.value("by-duration") or "")
        except click.UsageError:
            reason = "Text cannot be parsed to a Duration"
            raise JavaError("java.time.format.DateTimeParseException", reason) from None


def _check_long(name: str, text: str) -> None:
    if _LONG.fullmatch(text) is None or not -_LONG_MAX - 1 <= int(text) <= _LONG_MAX:
        reason = f"Cannot parse argument '{text}' of option {name}"
        raise JavaError("joptsimple.OptionArgumentConversionException", reason)


def _check_datetime(text: str) -> None:
    _, _, time = text.partition("T")
    if not time:
        raise JavaError("java.lang.RuntimeException", f"{_PARSING}: {_NO_TIME}")
    try:
        parse_datetime(text)
    except click.UsageError:
        zoned = text if re.search("[+Z-]", time) else f"{text}Z"
        reason = f'{_PARSING}: Unparseable date: "{zoned}"'
        raise JavaError("java.lang.RuntimeException", reason) from None
