"""Classes of characters as ranges, for the parsers of regular expressions."""

from __future__ import annotations

from typing import Final

Ranges = tuple[tuple[str, str], ...]
"""The first and the last character of each range. Ranges may overlap."""

DIGIT: Final[Ranges] = (("0", "9"),)
WORD: Final[Ranges] = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_LAST: Final = chr(0x10FFFF)


def others(ranges: Ranges) -> Ranges:
    """Return every character outside of these ranges."""
    found = []
    free = 0
    for first, last in sorted(ranges):
        if ord(first) > free:
            found.append((chr(free), chr(ord(first) - 1)))
        free = max(free, ord(last) + 1)
    if free <= ord(_LAST):
        found.append((chr(free), _LAST))
    return tuple(found)
