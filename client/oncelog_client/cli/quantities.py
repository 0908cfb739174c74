"""Durations, times and sizes as people read them. Scripts get milliseconds and bytes."""

from __future__ import annotations

import time
from typing import Final

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
# A text, not a compiled pattern: `re` compiles it at the first match, and most commands match none.
_DURATION: Final = r"(?:\d{1,12}(?:ms|s|m|h|d))+"
_PART: Final = r"(\d+)(ms|s|m|h|d)"
_SIZES: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_KIB: Final = 1024
# The end of the year 9999. A larger timestamp is not from a clock.
_LAST_MS: Final = 253_402_300_799_000


def duration_text(duration_ms: float) -> str:
    """Return `9 m 50 s`, `10 s`, `250 ms`: the two largest units, rounded down."""
    if duration_ms < 0:
        return f"-{duration_text(-duration_ms)}"
    rest = int(duration_ms)
    if rest < _UNITS[-1][1]:
        return f"{rest} ms"
    parts = []
    for name, unit_ms in _UNITS:
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count} {name}")
        elif parts:
            break
    return " ".join(parts[:2])


def time_text(timestamp_ms: int, now_ms: int) -> str:
    """Return the local time: `13:22:08` of today, `2026-11-21 13:22:08` of another day."""
    if not 0 <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ms"
    moment, today = time.localtime(timestamp_ms / 1000), time.localtime(now_ms / 1000)
    clock = time.strftime("%H:%M:%S", moment)
    same_day = moment[:3] == today[:3]
    return clock if same_day else f"{time.strftime('%Y-%m-%d', moment)} {clock}"


def size_text(size_bytes: int) -> str:
    """Return `512 B`, `1.8 KiB`, `12 MiB`."""
    if abs(size_bytes) < _KIB:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for name in _SIZES:
        size /= _KIB
        if abs(size) < _KIB or name == _SIZES[-1]:
            break
    return f"{size:.1f} {name}" if abs(size) < 10 else f"{size:.0f} {name}"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return `1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def parse_duration_ms(text: str) -> int | None:
    """Return `1h30m`, `7d` or `500ms` in milliseconds. Return None for any other text."""
    import re

    if re.fullmatch(_DURATION, text) is None:
        return None
    units_ms = dict(_UNITS, ms=1)
    return sum(int(number) * units_ms[unit] for number, unit in re.findall(_PART, text))
