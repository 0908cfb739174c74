"""Start and end of reading, in the form of `-o` and `--to`: offsets, ends, times, and ranges of
them (the notations of rpk and kcat)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

import click

from oncelog_client.cli.quantities import parse_duration_ms
from oncelog_client.cli.reset import kept_within
from oncelog_client.values import OffsetAndTimestamp, TopicPartition

MAX_OFFSET: Final = (1 << 63) - 1
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
# Python would accept any character between date and time, even the colon of a range.
_ISO: Final = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
# A number after @ with at most this many digits is in seconds. A longer number is in milliseconds.
_DIGITS_OF_SECONDS: Final = 10
_STARTS: Final = frozenset({"start", "earliest", "beginning"})
_ENDS: Final = frozenset({"end", "latest"})

TIMES: Final = "@-1h30m (units d, h, m, s, ms), @2026-11-22, @2026-11-22T06:30"
NOTATION: Final = (
    f"start, end, an offset, +N (after the start), -N (before the end) or a time: {TIMES}"
)


class Kind(Enum):
    """The kinds of positions."""

    OFFSET = "offset"
    AFTER_START = "after start"
    BEFORE_END = "before end"
    TIME = "time"


class Position(NamedTuple):
    """A place in every partition: an offset, a number of offsets after the start or before the end,
    or the first record at or after a time in ms since 1970."""

    kind: Kind
    value: int = 0


START: Final = Position(Kind.AFTER_START)
END: Final = Position(Kind.BEFORE_END)


class Range(NamedTuple):
    """From `first` up to `last` (exclusive). If `last` is None, the range has no end."""

    first: Position
    last: Position | None = None


# Look-up of offsets: partition -> "earliest", "latest" or ms since 1970.
Lookup: TypeAlias = Callable[
    [Mapping[TopicPartition, Any]], Awaitable[Mapping[TopicPartition, OffsetAndTimestamp]]
]


def parse_position(text: str, now_ms: int) -> Position:
    """Parse a position. Times may be relative to `now_ms`.

    Raises click.UsageError for any other text.
    """
    found = _position(text, now_ms)
    if found is None:
        raise click.UsageError(_is_not(text))
    return found


def parse_range(text: str, now_ms: int) -> Range:
    """Parse `FROM`, or `FROM:TO`, in which either part may be missing.

    Raises click.UsageError for any other text.
    """
    whole = _position(text, now_ms)
    if whole is not None:
        return Range(whole)
    for colon in (place for place, character in enumerate(text) if character == ":"):
        before, after = text[:colon], text[colon + 1 :]
        first = START if not before else _position(before, now_ms)
        last = END if not after else _position(after, now_ms)
        if before.startswith("@") and after.isascii() and after[:1].isdecimal():
            last = _position(f"@{after}", now_ms)  # @T1:T2
        if first is not None and last is not None:
            return Range(first, last)
    raise click.UsageError(f"{_is_not(text)}; or FROM:TO, two of these")


def _is_not(text: str) -> str:
    if text.startswith("@"):
        return f"{text!r} is not a time: {TIMES}, or seconds or milliseconds since 1970"
    return f"{text!r} is not {NOTATION}"


def _position(text: str, now_ms: int) -> Position | None:
    if text in _STARTS:
        return START
    if text in _ENDS:
        return END
    if text.startswith("@"):
        time_ms = parse_time(text[1:], now_ms)
        return None if time_ms is None else Position(Kind.TIME, time_ms)
    kind = {"+": Kind.AFTER_START, "-": Kind.BEFORE_END}.get(text[:1], Kind.OFFSET)
    digits = text if kind is Kind.OFFSET else text[1:]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        return None
    value = int(digits)
    return Position(kind, value) if value <= MAX_OFFSET else None


def parse_time(text: str, now_ms: int) -> int | None:
    """Return a time in ms since 1970, or None for any other text. Forms are seconds or milliseconds
    since 1970; a date or time of ISO 8601 (UTC unless it names a zone); and `-1h30m`, which is
    relative to `now_ms`."""
    if text.isascii() and text.isdecimal():
        if len(text) > len(str(_LAST_MS)):
            return None
        return int(text) * (1_000 if len(text) <= _DIGITS_OF_SECONDS else 1)
    if text.startswith("-"):
        ago_ms = parse_duration_ms(text[1:])
        return None if ago_ms is None else max(now_ms - ago_ms, 0)
    return _iso_time(text)


def _iso_time(text: str) -> int | None:
    if re.fullmatch(_ISO, text, re.ASCII) is None:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(round(moment.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        return None


async def resolve(
    lookup: Lookup, partitions: Iterable[TopicPartition], position: Position
) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition, within the log.

    In a partition without a record at or after a time, the result is the end. `lookup` finds the
    offsets as the reader sees them: for a reader of committed records, the end is the last stable
    offset.
    """
    moved, _ = await resolve_and_warn(lookup, partitions, position)
    return moved


async def resolve_and_warn(
    lookup: Lookup, partitions: Iterable[TopicPartition], position: Position
) -> tuple[dict[TopicPartition, int], list[str]]:
    """Resolve as `resolve` does. Also return a warning for each offset that was outside its log."""
    places = list(partitions)
    starts = await _offsets(lookup, places, "earliest")
    ends = await _offsets(lookup, places, "latest")
    if position.kind is Kind.TIME:
        found = await _offsets(lookup, places, position.value)
        wanted = {
            place: found[place] if found.get(place, -1) >= 0 else end for place, end in ends.items()
        }
    elif position.kind is Kind.OFFSET:
        wanted = dict.fromkeys(places, position.value)
    elif position.kind is Kind.AFTER_START:
        wanted = {place: start + position.value for place, start in starts.items()}
    else:
        wanted = {place: end - position.value for place, end in ends.items()}
    return kept_within(wanted, starts, ends)


async def _offsets(
    lookup: Lookup, places: list[TopicPartition], spec: Any
) -> dict[TopicPartition, int]:
    return {
        place: found.offset for place, found in (await lookup(dict.fromkeys(places, spec))).items()
    }
