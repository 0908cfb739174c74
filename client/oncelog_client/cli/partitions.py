"""Lists of partitions in the form `0,2-4`."""

from __future__ import annotations

from typing import Final

import click

MAX_PARTITION: Final = (1 << 31) - 1
# Maximum number of partitions in a range. No topic has more, so a larger range is a mistake.
MAX_RANGE: Final = 1 << 20


def parse_partitions(text: str | None) -> frozenset[int] | None:
    """Return the numbers in `0,2-4`. Return None for None, which means all partitions.

    Raises click.UsageError for an invalid list.
    """
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = _number(first), _number(last if dash else first)
        if low is None or high is None or not 0 <= high - low < MAX_RANGE:
            raise click.UsageError(f"-p {text!r} is not a list of partitions such as 0,2-4")
        found.update(range(low, high + 1))
    return frozenset(found)


def _number(text: str) -> int | None:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_PARTITION))):
        return None
    number = int(text)
    return number if number <= MAX_PARTITION else None
