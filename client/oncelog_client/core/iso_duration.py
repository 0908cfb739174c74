"""Durations in ISO 8601, such as `P1DT2H30M5S`, as `Duration.parse` of Java reads them."""

from __future__ import annotations

import re
from typing import Final

# A text instead of a compiled pattern, because few programs parse a duration.
_DURATION: Final = (
    r"(?P<sign>[-+]?)P(?=.)(?:(?P<days>[-+]?[0-9]+)D)?"
    r"(?:T(?=.)(?:(?P<hours>[-+]?[0-9]+)H)?(?:(?P<minutes>[-+]?[0-9]+)M)?"
    r"(?:(?P<seconds>[-+]?[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?"
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_NANOS: Final = 1_000_000_000
# Java holds the parts and their sum in seconds of 64 bits. Python refuses to convert much longer
# texts to numbers.
_MOST_SECONDS: Final = (1 << 63) - 1
_MOST_CHARACTERS: Final = 200


def parse_iso_duration(text: str) -> int | None:
    """Return the duration in ms, rounded down; it may be negative. Return None for a text that Java
    refuses."""
    if len(text) > _MOST_CHARACTERS:
        return None
    match = re.fullmatch(_DURATION, text, re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    parts = [int(match[unit] or 0) * seconds for unit, seconds in _SECONDS.items()]
    nanos = int((match["fraction"] or "").ljust(9, "0"))
    if (match["seconds"] or "").startswith("-"):
        nanos = -nanos
    whole = sum(parts)
    if any(not -_MOST_SECONDS <= seconds <= _MOST_SECONDS for seconds in (*parts, whole)):
        return None
    total = whole * _NANOS + nanos
    return (-total if match["sign"] == "-" else total) // 1_000_000
