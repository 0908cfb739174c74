"""The text of a client's address, as access rules compare it: that of Java's getHostAddress."""

from __future__ import annotations

from typing import Final

_GROUPS: Final = 8
_LARGEST: Final = 0xFFFF
_MAPPED: Final = ("0", "0", "0", "0", "0", "ffff")


def host_text(text: str) -> str:
    """Return an address as Java writes it: an IPv6 address as eight numbers without leading zeros
    and without `::`, and an IPv4 address that is mapped to IPv6 as IPv4. Return any other text
    unchanged.

    A listener of both families shows an IPv4 client as `::ffff:10.0.0.1`.
    """
    address, percent, scope = text.partition("%")
    try:
        groups = _groups(address)
    except ValueError:
        return text
    if tuple(groups[:6]) == _MAPPED:
        high, low = (int(group, 16) for group in groups[6:])
        return f"{high >> 8}.{high & 255}.{low >> 8}.{low & 255}"
    return ":".join(groups) + percent + scope


def _groups(address: str) -> list[str]:
    """Return the eight groups of an IPv6 address without leading zeros. Raises ValueError for text
    that is none."""
    head, double, tail = address.partition("::")
    first, last = _numbers(head), _numbers(tail)
    missing = _GROUPS - len(first) - len(last)
    if (missing < 1) if double else (missing != 0):
        raise ValueError("not eight groups")
    return [*first, *["0"] * missing, *last]


def _numbers(text: str) -> list[str]:
    """Return the groups of one side of the address. Raises ValueError."""
    groups: list[str] = []
    for part in text.split(":") if text else ():
        if "." in part:
            a, b, c, d = (int(number) for number in part.split("."))
            numbers = [(a << 8) + b, (c << 8) + d]
        else:
            numbers = [int(part, 16)]
        if not all(0 <= number <= _LARGEST for number in numbers):
            raise ValueError("a group is too large")
        groups += [f"{number:x}" for number in numbers]
    return groups
