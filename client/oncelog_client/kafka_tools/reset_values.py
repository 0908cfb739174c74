"""The command line of `oncelog groups` for a reset and for deleted offsets, and the messages of
Kafka's tool for values that it cannot read."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import click

from oncelog_client.cli.reset import parse_duration
from oncelog_client.kafka_tools.failures import JavaError
from oncelog_client.kafka_tools.options import Given

_LONGS: Final = ("to-offset", "shift-by")
_LONG: Final = re.compile(r"[+-]?\d+")
_LONG_MAX: Final = 2**63 - 1
_PARSING: Final = "java.text.ParseException"
# The patterns of Utils.getDateTime. As in Java, text after the zone is ignored.
_DATETIME: Final = re.compile(
    r"(\d{1,4})-(\d\d?)-(\d\d?)T(\d\d?):(\d\d?):(\d\d?)\.(\d{1,3})(Z|[+-]\d\d(?::\d\d)?)"
)
_REPEATED: Final = ("group", "topic")
_VALUES: Final = ("by-duration", "from-file", "shift-by")
_FLAGS: Final = (
    *("reset-offsets", "delete-offsets", "all-groups", "all-topics", "to-current", "to-earliest"),
    *("to-latest", "dry-run", "execute", "export"),
)
_NO_TIME: Final = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"


def command_words(given: Given) -> list[str]:
    """Return the arguments of `oncelog groups` for --reset-offsets or --delete-offsets. Raises
    JavaError for a value that Kafka's tool cannot read (joptsimple, Utils.getDateTime, Java's
    Duration), and for several groups of --delete-offsets."""
    if given.has("delete-offsets"):
        given.value("group")
    _check_values(given)
    words = [f"--bootstrap-server={given.value('bootstrap-server')}"]
    words += [f"--{name}" for name in _FLAGS if given.has(name)]
    words += [f"--{name}={text}" for name in _REPEATED for text in given.values(name)]
    words += [f"--{name}={given.value(name)}" for name in _VALUES if given.has(name)]
    offset = given.number("to-offset")
    if offset is not None:
        # Kafka's tool takes the start of the log for a negative offset.
        words.append(f"--to-offset={max(offset, 0)}")
    if given.has("to-datetime"):
        words.append(f"--to-datetime={_datetime(given.value('to-datetime') or '').isoformat()}")
    return words


def _check_values(given: Given) -> None:
    for name in _LONGS:
        if given.has(name):
            _check_long(name, given.value(name) or "")
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


def _datetime(text: str) -> datetime:
    _, _, time = text.partition("T")
    if not time:
        raise JavaError("java.lang.RuntimeException", f"{_PARSING}: {_NO_TIME}")
    zoned = text if re.search("[+Z-]", time) else f"{text}Z"
    found = _DATETIME.match(zoned)
    try:
        if found is None:
            raise ValueError
        year, month, day, hour, minute, second, ms = map(int, found.groups()[:-1])
        zone = datetime.strptime(found[8], "%z").tzinfo
        return datetime(year, month, day, hour, minute, second, ms * 1000, zone)
    except ValueError:
        reason = f'{_PARSING}: Unparseable date: "{zoned}"'
        raise JavaError("java.lang.RuntimeException", reason) from None
