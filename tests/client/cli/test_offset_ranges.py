"""Positions in a log, and ranges of offsets, in the form that a user writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oncelog_client.cli.offset_ranges import (
    END,
    START,
    Kind,
    Position,
    Range,
    parse_position,
    parse_range,
    parse_time,
    resolve,
)
from oncelog_client.values import OffsetAndTimestamp, TopicPartition

NOW_MS = 1_795_000_000_000
OFFSETS = st.integers(0, (1 << 63) - 1)
PLACE = TopicPartition("t", 0)


def position(text: str) -> Position:
    return parse_position(text, NOW_MS)


@given(OFFSETS)
def test_a_number_is_an_offset_or_counts_from_the_start_or_the_end(number: int) -> None:
    assert position(str(number)) == Position(Kind.OFFSET, number)
    assert position(f"+{number}") == Position(Kind.AFTER_START, number)
    assert position(f"-{number}") == Position(Kind.BEFORE_END, number)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)))
def test_a_time_may_be_iso_seconds_or_milliseconds(moment: datetime) -> None:
    time_ms = round(moment.replace(tzinfo=UTC).timestamp() * 1000)
    assert position(f"@{moment.isoformat()}") == Position(Kind.TIME, time_ms)
    if len(str(time_ms)) > 10:
        assert position(f"@{time_ms}") == Position(Kind.TIME, time_ms)
    assert position(f"@{int(time_ms / 1000)}").kind is Kind.TIME


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("@-1h", 3_600_000), ("@-1d2h", 93_600_000), ("@-250ms", 250)]
)
def test_a_time_may_be_relative_to_now(text: str, ago_ms: int) -> None:
    assert position(text) == Position(Kind.TIME, NOW_MS - ago_ms)


POSITIONS = st.one_of(
    st.sampled_from(["start", "end", "@2026-11-22", "@2026-11-22T06:30", "@2026-11-22T06:30:59Z",
                     "@-1h30m", "@1795000000", "@1795000000000"]),
    OFFSETS.map(str),
    st.integers(0, 1000).map(lambda number: f"+{number}"),
    st.integers(0, 1000).map(lambda number: f"-{number}"),
)  # fmt: skip


@given(POSITIONS, POSITIONS)
def test_a_range_is_two_positions(first: str, last: str) -> None:
    # After a time without seconds, a second position of two digits would be read as the seconds.
    assume(not (first.endswith("06:30") and len(last) == 2 and last.isdecimal()))
    are_times = first.startswith("@") and last[0].isdecimal()
    if are_times and parse_time(last, NOW_MS) is None:
        with pytest.raises(click.UsageError):  # `last` is a time after the year 9999
            parse_range(f"{first}:{last}", NOW_MS)
        return
    found = parse_range(f"{first}:{last}", NOW_MS)
    assert found.first == position(first)
    if are_times:
        last = f"@{last}"  # @T1:T2, the form of rpk
        assert found.last is not None
        assert found.last.kind is Kind.TIME
    else:
        assert found.last == position(last)


@given(POSITIONS)
def test_either_end_of_a_range_may_be_left_out(text: str) -> None:
    assert parse_range(text, NOW_MS) == Range(position(text))
    assert parse_range(f"{text}:", NOW_MS) == Range(position(text), END)
    assert parse_range(f":{text}", NOW_MS) == Range(START, position(text))


@given(st.text(max_size=40))
def test_a_text_that_is_no_range_raises_only_usage_error(text: str) -> None:
    with suppress(click.UsageError):
        assert isinstance(parse_range(text, NOW_MS).first, Position)


@pytest.mark.parametrize(
    "text", ["", ":::", "@", "@yesterday", "1.5", "--1", "@-1y", "9" * 25, "²"]
)
def test_an_invalid_range_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_range(text, NOW_MS)


@pytest.mark.parametrize("text", ["@-5min", "@-1hour", "@-5x"])
def test_the_error_for_an_unknown_unit_of_time_lists_the_units(text: str) -> None:
    for parse in (parse_position, parse_range):
        with pytest.raises(click.UsageError, match="units d, h, m, s, ms"):
            parse(text, NOW_MS)


def resolved(where: Position, start: int, end: int, at_time: int | None = None) -> int:
    async def lookup(
        specs: Mapping[TopicPartition, Any],
    ) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        offsets = {"earliest": start, "latest": end}
        found = {place: offsets.get(spec, at_time) for place, spec in specs.items()}
        return {
            place: OffsetAndTimestamp(offset, 0)
            for place, offset in found.items()
            if offset is not None
        }

    return asyncio.run(resolve(lookup, [PLACE], where))[PLACE]


@given(st.sampled_from(list(Kind)), OFFSETS, st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_every_position_resolves_to_an_offset_within_the_log(
    kind: Kind, value: int, start: int, length: int
) -> None:
    end = start + length
    assert start <= resolved(Position(kind, value), start, end) <= end


def test_positions_resolve_to_offsets() -> None:
    assert resolved(Position(Kind.BEFORE_END, 3), 10, 20) == 17
    assert resolved(Position(Kind.AFTER_START, 3), 10, 20) == 13
    assert resolved(Position(Kind.OFFSET, 12), 10, 20) == 12
    assert resolved(Position(Kind.TIME, 5), 10, 20, at_time=15) == 15
    assert resolved(Position(Kind.TIME, 5), 10, 20, at_time=None) == 20
