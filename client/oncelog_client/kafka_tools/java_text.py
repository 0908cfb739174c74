"""Texts and orders of Java that Kafka's tools show: a double, the parts of a text, the order of a
HashMap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final, TypeVar

K = TypeVar("K")

_INT32: Final = 1 << 32
# Double.toString has an exponent outside of this range.
_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7


def double_text(value: float) -> str:
    """Return the text of Double.toString for a positive number: `1024.0`, `1.0E7`."""
    if _PLAIN_FROM <= value < _PLAIN_TO:
        return str(float(value))
    digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()[1:]
    if not isinstance(exponent, int):
        return "Infinity"
    first, *rest = map(str, digits)
    return f"{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def split_text(text: str, separator: str | re.Pattern[str]) -> list[str]:
    """Return the parts of String.split: empty parts at the end are left out."""
    parts = text.split(separator) if isinstance(separator, str) else separator.split(text)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


def string_hash(text: str) -> int:
    """Return String.hashCode of a text."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(data), 2):
        code = (31 * code + (data[position] << 8 | data[position + 1])) % _INT32
    return code


def map_hash(names: Mapping[str, str | None]) -> int:
    """Return HashMap.hashCode of a map of texts."""
    hashes = (
        string_hash(name) ^ (0 if value is None else string_hash(value))
        for name, value in names.items()
    )
    return sum(hashes) % _INT32


def in_hash_order(keys: Iterable[K], hash_code: Callable[[K], int], capacity: int) -> list[K]:
    """Return the keys in the order of a HashMap that was made with a capacity, and got the keys in
    this order. A map with many keys of one bucket may have another order in Java."""
    kept = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(kept) > size * 3 // 4:
        size *= 2

    def bucket(key: K) -> int:
        code = hash_code(key)
        return (code ^ code >> 16) & (size - 1)

    return sorted(kept, key=bucket)
